"use strict";
// The items that this page holds beside the one on the screen: claimed and fetched while that one is read.
// Their leases live as long as the page is in use; whoever leaves the page gives them back.

const ahead = (() => {
  const GIVEN_BACK = "assay-given-back"; // tells the person's other tabs
  const BEGUN = 0.9; // the share of its lease after which an item is no longer begun

  let hand = []; // { parts, about, leased }: what to show, its form's data, since when it is ours
  let asking = false;
  let staying = false; // the person goes to another page of the same work, and comes back

  function items() {
    hand = hand.filter(({ about, leased }) => Date.now() - leased < Number(about.lease) * 1000 * BEGUN);
    return hand.map(({ about }) => about.item);
  }

  const about = (parts) => parts.querySelector("form[data-item]")?.dataset;

  // ``parts``: a fragment of all that changes from item to item.
  function put(parts, { first = false } = {}) {
    const one = { parts, about: about(parts), leased: Date.now() };
    if (!one.about || items().includes(one.about.item)) return;
    hand.splice(first ? 0 : hand.length, 0, one);
  }

  function drop(item) {
    hand = hand.filter((one) => one.about.item !== item);
  }

  // The parts of the next item; undefined where there is none, or where its lease has run out.
  function take() {
    items();
    return hand.shift()?.parts;
  }

  // Claim and fetch one more than those that the page ``had``; ``isWanted`` is asked when it has come.
  async function fetchOne(url, had, isWanted) {
    if (asking || items().length) return;
    asking = true;
    try {
      const response = await shell.post(url, new URLSearchParams(had.map((item) => ["had", item])));
      const { parts } = read(response.status === 200 && !response.redirected ? await response.text() : "");
      const found = about(parts)?.item;
      if (found && isWanted(found)) put(parts);
    } catch {
      // without one ahead the answer of the submit brings the next
    } finally {
      asking = false;
    }
  }

  // An answer of the server taken apart: what goes into the page, what is said, and how far the person is.
  function read(text) {
    const template = document.createElement("template");
    template.innerHTML = text;
    const parts = document.createDocumentFragment();
    parts.append(template.content); // its elements become this document's now, and not when they are shown
    const said = parts.querySelector("hx-partial");
    const progress = [...parts.children].find((part) => part.matches("[data-progress]"));
    said?.remove();
    progress?.remove();
    return { parts, said, progress };
  }

  async function extend() {
    for (const one of [...hand]) {
      try {
        const { status } = await shell.post(one.about.extend);
        if (status === 204) one.leased = Date.now();
        else if (status === 409) drop(one.about.item);
      } catch {
        // the next one may arrive; if the lease runs out, the item is fetched afresh
      }
    }
  }

  function giveBack() {
    if (staying) return;
    for (const { about: one } of hand.splice(0)) {
      shell.post(one.release, undefined, { keepalive: true }).catch(() => {});
      keep.put(GIVEN_BACK, `${one.item} ${Date.now()}`);
    }
  }

  window.addEventListener("storage", (event) => {
    if (event.key === GIVEN_BACK && event.newValue) drop(event.newValue.split(" ")[0]);
  });
  window.addEventListener("pagehide", giveBack);

  return { items, put, drop, take, fetchOne, read, extend, stay: () => (staying = true) };
})();
