// Select2 leaves its boxes without a name: each is called by the label of its field.
addEventListener("load", () => {
  for (const box of document.querySelectorAll(".select2-selection")) {
    const field = box.closest(".select2").previousElementSibling;
    const label = field?.labels?.[0];
    if (!label) continue;
    label.id ||= `${field.id}_label`;
    box.setAttribute("aria-labelledby", `${label.id} ${box.getAttribute("aria-labelledby") ?? ""}`);
  }
});
