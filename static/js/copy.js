"use strict";
// A button that copies a field. Without a clipboard there is no button: the text can be selected.

(() => {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy]")) {
    const field = document.getElementById(button.dataset.copy);
    button.hidden = false;
    button.addEventListener("click", async () => {
      const told = document.querySelector("[data-copied]");
      try {
        await navigator.clipboard.writeText(field.value);
        told.textContent = told.dataset.copied;
      } catch {
        field.select();
      }
    });
  }
})();
