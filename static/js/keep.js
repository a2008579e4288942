"use strict";
// What the browser keeps. Storage can be forbidden or full: a page must stand all the same, so nothing here throws.

const keep = (() => {
  function text(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  }

  function put(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      // it then lives in the page alone
    }
  }

  function drop(key) {
    try {
      localStorage.removeItem(key);
    } catch {
      // what cannot be read cannot be in the way
    }
  }

  function json(key) {
    try {
      return JSON.parse(localStorage.getItem(key));
    } catch {
      return null;
    }
  }

  function keys(prefix) {
    try {
      return Object.keys(localStorage).filter((key) => key.startsWith(prefix));
    } catch {
      return [];
    }
  }

  return { text, put, drop, json, keys };
})();
