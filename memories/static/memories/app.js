// What the pages do beyond links, forms and htmx. Everything works without it.
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // Theme: at once, without a page load; the cookie is the server's.
  document.addEventListener("submit", (event) => {
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
  });

  // Text that was typed and not saved is not left by accident.
  let unsaved = null;
  document.addEventListener("input", (event) => {
    const form = event.target.closest("[data-guard]");
    if (form) unsaved = form;
    const count = document.getElementById(event.target.dataset.count);
    if (count) count.textContent = count.dataset.words.replace("#", tokens(event.target.value));
  });
  document.addEventListener("submit", (event) => {
    if (event.target === unsaved) unsaved = null;
  });
  addEventListener("beforeunload", (event) => {
    const open = unsaved?.isConnected || document.querySelector('[data-guard="changed"]');
    if (open && !leaving) event.preventDefault();
  });
  let leaving = false;
  document.addEventListener("submit", () => { leaving = true; setTimeout(() => { leaving = false; }, 2000); });

  // As rules/tokens.py counts: one a wide character, a quarter for the rest.
  const wide = /[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\u{20000}-\u{3ffff}]/gu;
  const tokens = (text) => {
    const n = (text.match(wide) || []).length;
    return n + Math.ceil(([...text].length - n) / 4);
  };

  // Search while typing, but never while a Japanese word is still being composed.
  const changed = (event) => {
    if (event.type === "compositionend" || !event.isComposing) {
      event.target.dispatchEvent(new CustomEvent("q-change", { bubbles: true }));
    }
  };
  for (const kind of ["input", "compositionend"]) {
    document.addEventListener(kind, (event) => {
      if (event.target.matches?.('input[type="search"]')) changed(event);
    });
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-dismiss]")) document.getElementById("toast").replaceChildren();
  });

  // htmx: what is busy says so; what failed keeps what was there and offers another try.
  document.addEventListener("htmx:beforeRequest", (event) => {
    event.detail.target.setAttribute("aria-busy", "true");
    document.getElementById("failed")?.remove();
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    event.detail.target.removeAttribute("aria-busy");
  });
  const failed = (event) => {
    const band = document.getElementById("error-band").content.firstElementChild.cloneNode(true);
    const source = event.detail.requestConfig?.elt ?? event.detail.elt;
    if (source.matches("[data-guard]")) unsaved = source;
    band.id = "failed";
    band.querySelector("[data-again]").addEventListener("click", () => {
      band.remove();
      if (source.requestSubmit) source.requestSubmit();
      else source.click();
    });
    event.detail.target.before(band);
  };
  document.addEventListener("htmx:responseError", failed);
  document.addEventListener("htmx:sendError", failed);
  document.addEventListener("htmx:beforeSwap", (event) => {
    // Signed out meanwhile: the login page is no part of this one.
    if (new URL(event.detail.xhr.responseURL).pathname !== "/login/") return;
    event.detail.shouldSwap = false;
    failed(event);
  });

  // Older messages bring a heading for a day that is on the page already.
  document.addEventListener("htmx:afterSettle", () => {
    let last = "";
    for (const day of document.querySelectorAll(".day")) {
      if (day.dataset.day === last) day.remove();
      last = day.dataset.day;
    }
  });
})();
