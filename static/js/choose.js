"use strict";
// Choosing items of a table: all of the page at once, a range with Shift, and how many are chosen.

(() => {
  const all = document.querySelector("[data-choose-all]");
  const boxes = [...document.querySelectorAll("[data-choose-one]")];
  const count = document.querySelector("[data-choose-count]");
  if (!all || !boxes.length) return;
  let last = null;

  function show() {
    const chosen = boxes.filter((box) => box.checked).length;
    all.checked = chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
    if (count) count.textContent = `${chosen} / ${boxes.length}`;
  }

  all.hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    show();
  });

  for (const box of boxes) {
    box.addEventListener("click", (event) => {
      if (event.shiftKey && last) {
        const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
        for (const one of boxes.slice(from, to + 1)) one.checked = box.checked;
      }
      last = box;
      show();
    });
  }
  show();
})();
