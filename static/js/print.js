"use strict";
// A button that prints the page. Without a script there is none: the browser's own menu prints.

(() => {
  for (const button of document.querySelectorAll("[data-print]")) {
    button.hidden = false;
    button.addEventListener("click", () => window.print());
  }
})();
