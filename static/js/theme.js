"use strict";
// Sets the person's chosen theme before the first paint; without a choice the system's wish holds.

(() => {
  const KEY = "assay-theme";
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage can be forbidden; the page must stand all the same
    }
  }

  function store(theme) {
    try {
      if (theme === null) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      // the choice then lasts for this page only
    }
  }

  function show(theme) {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  }

  function toggle() {
    const wish = system.matches ? "dark" : "light";
    const next = (root.dataset.theme || wish) === "dark" ? "light" : "dark";
    // Back at the system's wish, the page follows the system again.
    const choice = next === wish ? null : next;
    store(choice);
    show(choice);
  }

  show(stored());
  window.addEventListener("storage", (event) => {
    if (event.key === KEY) show(event.newValue);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-toggle]")) toggle();
  });
})();
