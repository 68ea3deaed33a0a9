// What the pages do beyond links, forms and htmx. Everything works without it.
(() => {
  const root = document.documentElement;
  const on = (kind, does, capture = false) => document.addEventListener(kind, does, capture);
  root.classList.add("js", navigator.clipboard ? "copies" : "reads");

  // Theme: at once, without a page load; the cookie is the server's.
  on("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-theme-form]")) return;
    event.preventDefault();
    const theme = event.submitter.value;
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    const secure = location.protocol === "https:" ? "; secure" : "";
    const life = theme ? 31536000 : 0;
    document.cookie = `theme=${theme}; path=/; max-age=${life}; samesite=lax${secure}`;
    for (const button of form.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button === event.submitter));
    }
    // Who is signed in finds it in other browsers too.
    if (form.dataset.themeForm === "kept") {
      fetch(form.action, { method: "POST", body: new FormData(form, event.submitter), redirect: "manual", keepalive: true }).catch(() => {});
    }
  });

  // Text that was typed and not saved is not left by accident.
  const changedForms = new Set();
  const unsavedForms = () => [...changedForms].filter((form) => form.isConnected);
  on("input", (event) => {
    const { form } = event.target; // of a field with its attribute too
    if (form?.matches("[data-guard]")) changedForms.add(form);
    const count = document.getElementById(event.target.dataset.count);
    if (count) count.textContent = count.dataset.words.replace("#", tokens(event.target.value));
    // Who writes a day beside a choice means it.
    const choice = event.target.closest(".since-day")?.querySelector("[type=radio]");
    if (choice) choice.checked = true;
  });
  // A preset fills in its values. Another value makes it "Custom".
  on("input", ({ target }) => {
    const preset = target.form?.querySelector("[data-fills]");
    if (!preset) return;
    const fields = target.form.elements;
    if (target.dataset.fills) for (const [name, value] of Object.entries(JSON.parse(target.dataset.fills))) fields[name].value = value;
    else if (target.name in JSON.parse(preset.dataset.fills)) fields.preset.value = "custom";
  });
  let leaving = false;
  on("submit", (event) => {
    // Another form, as that of the language, takes along nothing of what was typed.
    if (!changedForms.delete(event.target) && event.target.dataset.guard !== "changed") return;
    leaving = !unsavedForms().length;
    setTimeout(() => { leaving = false; }, 2000);
  }, true); // before htmx sends it
  addEventListener("beforeunload", (event) => {
    const open = unsavedForms().length || document.querySelector('[data-guard="changed"]');
    if (open && !leaving) event.preventDefault();
  });

  // As rules/tokens.py counts: one a wide character, a quarter for the rest.
  const wide = /[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\u{20000}-\u{3ffff}]/gu;
  const tokens = (text) => {
    const n = (text.match(wide) || []).length;
    return n + Math.ceil(([...text].length - n) / 4);
  };

  // Ctrl+Enter sends a note.
  on("keydown", (event) => {
    const sends = event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing;
    if (sends) event.target.closest("[data-send]")?.requestSubmit();
  });

  // Single keys, where the server says which: a control has data-key; data-steps="jk" are places, j
  // leads to the next and k to the one before. Of equal controls that of the focused place is meant,
  // or that of an open editor.
  let prefix = "";
  on("keydown", (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (document.querySelector(":popover-open")) return;
    const key = prefix + event.key;
    prefix = key === "g" ? "g " : "";
    const all = (name, how) => [...document.querySelectorAll(`[data-${name}${how}="${CSS.escape(key)}"]`)];
    const here = document.activeElement.closest("[data-steps]");
    const places = all("steps", "*").filter((one) => one.checkVisibility());
    const place = places[places.indexOf(here) + (places[0]?.dataset.steps.startsWith(key) ? 1 : -1)];
    const controls = all("key", "");
    const control = controls.find((one) => here?.contains(one) || one.closest(".editor")) ?? (controls.length === 1 && controls[0]);
    if (!place && !control) return;
    event.preventDefault();
    if (place) (place.matches("[tabindex]") ? place : place.querySelector("summary, a") ?? place).focus();
    else if (control.matches("input")) control.focus();
    else control.click();
  });

  // The palette lists what the page links to, and its buttons, by their words.
  const palette = document.getElementById("palette");
  const [field, list] = palette?.querySelectorAll("input, ul") ?? [];
  const places = "#nav .nav-list a, #nav .nav-foot a, main .tabs a, main a.button, main .button:not([hidden], :disabled)";
  const wordsOf = (element) => {
    const parts = [...element.childNodes].filter((part) => !part.classList?.contains("count"));
    const words = parts.map((part) => part.textContent).join("").replace(/\s+/g, " ").trim();
    return element.closest('[id^="nav-channel"]') ? `#${words}` : words;
  };
  const choose = (option) => {
    for (const other of list.children) other.setAttribute("aria-selected", String(other === option));
    field.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  };
  const open = (option) => {
    palette.close();
    if (option.opens) option.opens.click();
    else palette.querySelector("form").submit();
  };
  const match = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    const targets = new Map();
    for (const target of document.querySelectorAll(places)) {
      const text = wordsOf(target), first = targets.get(text);
      // Controls with equal words, such as one in each row of a list, are left out.
      const isSame = first?.closest("#nav") || (first?.href && first.href === target.href);
      targets.set(text, !targets.has(text) ? target : isSame ? first : null);
    }
    const hits = [...targets].filter(([text, target]) => text && target && words.every((word) => text.toLowerCase().includes(word)));
    if (field.value.trim()) hits.push([list.dataset.search.replace("#", field.value.trim())]);
    list.replaceChildren(...hits.map(([text, opens], i) => {
      const option = Object.assign(document.createElement("li"), { id: `palette-${i}`, role: "option", textContent: text, opens });
      option.addEventListener("click", () => open(option));
      return option;
    }));
    choose(list.firstElementChild);
  };
  const showPalette = () => { field.value = ""; palette.showModal(); match(); };
  field?.addEventListener("input", match);
  field?.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const chosen = list.querySelector('[aria-selected="true"]');
    const next = { ArrowDown: chosen.nextElementSibling ?? list.firstElementChild, ArrowUp: chosen.previousElementSibling ?? list.lastElementChild }[event.key];
    if (next) choose(next);
    if (next || event.key === "Enter") event.preventDefault();
    if (event.key === "Enter") open(chosen);
  });
  on("keydown", (event) => {
    if (!palette || palette.open || event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    showPalette();
  });
  on("click", (event) => {
    if (event.target.closest("[data-palette]")) showPalette();
    if (event.target === palette) palette.close();
  });

  // Search while typing, but never while a Japanese word is still being composed.
  const changed = ({ isComposing, target }) => {
    if (isComposing || !target.matches?.('input[type="search"]')) return;
    target.dispatchEvent(new CustomEvent("q-change", { bubbles: true }));
  };
  for (const kind of ["input", "compositionend"]) on(kind, changed);

  on("click", async (event) => {
    const toast = document.getElementById("toast");
    if (event.target.closest("[data-dismiss]")) toast.replaceChildren();
    const copy = event.target.closest("[data-copy]");
    if (!copy) return;
    const parts = [...document.querySelectorAll(copy.dataset.copy)];
    await navigator.clipboard.writeText(parts.map((part) => part.textContent).join("\n\n"));
    toast.textContent = copy.dataset.done;
  });

  // A line: its link "Edit" and a click on its text open the same form. Cancel closes it.
  on("click", (event) => {
    const edit = event.target.closest("[data-edit]");
    const closes = event.target.closest("[data-close]");
    const summary = (edit ?? closes)?.closest(".line").querySelector("summary");
    if (!summary) return;
    event.preventDefault();
    if (closes) changedForms.delete(closes.closest("form"));
    if (!edit || !summary.parentElement.open) summary.click();
    if (closes) summary.focus();
  });

  // htmx: what is busy says so; what failed keeps what was there and offers another try.
  // What asks again by itself does so unnoticed, and not while nobody looks.
  const toLogin = (event) => new URL(event.detail.xhr.responseURL).pathname === "/login/";
  const told = () => document.getElementById("failed");
  const forget = () => told()?.remove();
  const polls = (elt) => elt.matches("[hx-trigger^=every]");
  const quiet = (elt) => polls(elt) || elt.matches("#draft");
  on("htmx:beforeRequest", (event) => {
    const { elt, target } = event.detail;
    if (polls(elt) && document.hidden) event.preventDefault();
    if (quiet(elt)) return;
    // The answer would replace what was typed in other forms.
    const replaces = (form) => target.contains(form) && !form.contains(elt);
    if (unsavedForms().some(replaces) && !confirm(document.getElementById("error-bands").dataset.unsaved)) {
      event.preventDefault();
      if (elt.matches("[data-guard]")) changedForms.add(elt);
      return;
    }
    target.setAttribute("aria-busy", "true");
    forget();
  });
  on("htmx:afterRequest", (event) => {
    // An answer may have been for another place than the one that was busy.
    const { target, requestConfig } = event.detail;
    for (const one of [target, requestConfig.target]) one.removeAttribute("aria-busy");
    if (event.detail.successful && !toLogin(event) && told()?.source === requestConfig.elt) forget();
  });
  const failed = (event, why = event.detail.xhr.status) => {
    const bands = document.getElementById("error-bands").content;
    const band = (bands.querySelector(`[data-for~="${why}"]`) ?? bands.firstElementChild).cloneNode(true);
    const source = event.detail.requestConfig?.elt ?? event.detail.elt;
    if (source.matches("[data-guard]")) changedForms.add(source);
    if (quiet(source) && told()) return; // of what a person did
    forget();
    Object.assign(band, { id: "failed", source });
    band.querySelector("[data-again]")?.addEventListener("click", () => {
      band.remove();
      if (source.requestSubmit) source.requestSubmit();
      else if (source.type === "search") changed({ target: source });
      else source.click();
    });
    const { target } = event.detail;
    target[target.matches("article") ? "prepend" : "before"](band);
  };
  on("htmx:responseError", failed);
  on("htmx:sendError", failed);
  on("htmx:beforeSwap", (event) => {
    // Signed out meanwhile: the login page is no part of this one.
    if (!toLogin(event)) return;
    event.detail.shouldSwap = false;
    failed(event, "login");
  });

  // Who types on while a note is being added keeps that text, and their place in it.
  let typing = null;
  on("htmx:oobBeforeSwap", ({ detail }) => {
    if (!unsavedForms().some((form) => detail.target.contains(form))) return;
    detail.shouldSwap = false;
    typing = document.activeElement;
  });
  on("htmx:afterSettle", () => { typing?.focus(); typing = null; });

  // A security key that did not answer.
  on("allauth.error", () => { document.getElementById("key-error").hidden = false; });

  // How much of a file is sent.
  on("htmx:xhr:progress", ({ target, detail }) => {
    const bar = target.querySelector("[data-sent]");
    if (bar) Object.assign(bar, { hidden: false, max: detail.total || 1, value: detail.loaded });
  });

  // Older messages bring a heading for a day that is on the page already.
  on("htmx:afterSettle", () => {
    let last = "";
    for (const day of document.querySelectorAll(".day")) {
      if (day.dataset.day === last) day.remove();
      last = day.dataset.day;
    }
  });
})();
