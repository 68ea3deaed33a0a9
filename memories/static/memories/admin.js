// Select2 leaves its boxes without a name: each is called by the label of its field. They are made
// when jQuery is ready; what asks to be told later, as this does, is told later.
window.django?.jQuery?.(() => {
  for (const box of document.querySelectorAll(".select2-selection")) {
    const field = box.closest(".select2").previousElementSibling;
    const label = field?.labels?.[0];
    if (!label) continue;
    label.id ||= `${field.id}_label`;
    const value = box.querySelector("[role=textbox]");
    box.setAttribute("aria-labelledby", `${label.id} ${value?.id ?? ""}`);
    value?.setAttribute("aria-labelledby", label.id);
  }
});
