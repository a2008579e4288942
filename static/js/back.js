"use strict";
// Coming back to a page from one of its links puts the focus on that link again: where the next Tab goes on from.

(() => {
  const left = history.state?.left;
  const link = left && [...document.querySelectorAll("main a[href]")].find((one) => one.getAttribute("href") === left);
  if (link) link.focus({ preventScroll: true });

  document.querySelector("main").addEventListener("click", ({ target }) => {
    const href = target.closest("a[href]")?.getAttribute("href");
    if (href) history.replaceState({ ...history.state, left: href }, "");
  });
})();
