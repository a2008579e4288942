"use strict";
// A draft that its author discards goes from this browser, too: else the item's page would fill itself with it again.

document.addEventListener("submit", ({ target }) => {
  if (target.dataset.discards) keep.drop(`assay-draft:${target.dataset.discards}`); // as drafts.js names it
});
