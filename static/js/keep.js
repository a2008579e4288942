"use strict";
// What the browser keeps. Storage can be forbidden or full: a page must stand all the same, so nothing here throws.

const keep = (() => {
  function attempt(act, otherwise = null) {
    try {
      return act();
    } catch {
      return otherwise; // it then lives in the page alone
    }
  }

  return {
    text: (key) => attempt(() => localStorage.getItem(key)),
    json: (key) => attempt(() => JSON.parse(localStorage.getItem(key))),
    put: (key, value) => attempt(() => localStorage.setItem(key, value)),
    drop: (key) => attempt(() => localStorage.removeItem(key)),
    keys: (prefix) => attempt(() => Object.keys(localStorage).filter((key) => key.startsWith(prefix)), []),
  };
})();
