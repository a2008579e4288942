"use strict";
// The items that this page holds beside the one on the screen: claimed and fetched while that one is read.
// Their leases live as long as the page is in use; whoever leaves the page gives them back.

const ahead = (() => {
  const GIVEN_BACK = "assay-given-back"; // tells the person's other tabs
  const BEGUN = 0.9; // the share of its lease after which an item is no longer begun

  let hand = []; // { item, parts, about, leased }: what to show, its form's data, since when it is ours
  let asking = false;
  let staying = false; // the person goes to another page of the same work, and comes back

  function items() {
    hand = hand.filter((one) => Date.now() - one.leased < Number(one.about.lease) * 1000 * BEGUN);
    return hand.map((one) => one.item);
  }

  // ``parts``: a fragment of all that changes from item to item.
  function put(parts, { first = false } = {}) {
    const about = parts.querySelector("form[data-item]")?.dataset;
    if (!about || items().includes(about.item)) return;
    hand.splice(first ? 0 : hand.length, 0, { item: about.item, parts, about, leased: Date.now() });
  }

  function drop(item) {
    hand = hand.filter((one) => one.item !== item);
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
      const response = await outbox.post(url, new URLSearchParams(had.map((item) => ["had", item])));
      const text = response.status === 200 && !response.redirected ? await response.text() : "";
      const { parts } = read(text);
      const item = parts.querySelector("form[data-item]")?.dataset.item;
      if (item && isWanted(item)) put(parts);
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
    const parts = template.content;
    const said = parts.querySelector("hx-partial");
    said?.remove();
    const progress = [...parts.children].find((part) => part.matches("[data-progress]"));
    progress?.remove();
    return { parts, said, progress };
  }

  async function extend() {
    for (const one of [...hand]) {
      try {
        const response = await outbox.post(one.about.extend);
        if (response.status === 204) one.leased = Date.now();
        else if (response.status === 409) drop(one.item);
      } catch {
        // the next one may arrive; if the lease runs out, the item is fetched afresh
      }
    }
  }

  function giveBack() {
    if (staying) return;
    for (const one of hand) {
      outbox.post(one.about.release, undefined, { keepalive: true }).catch(() => {});
      keep.put(GIVEN_BACK, `${one.item} ${Date.now()}`);
    }
    hand = [];
  }

  const stay = () => (staying = true);

  window.addEventListener("storage", (event) => {
    if (event.key === GIVEN_BACK && event.newValue) drop(event.newValue.split(" ")[0]);
  });
  window.addEventListener("pagehide", giveBack);

  return { items, put, drop, take, fetchOne, read, extend, stay };
})();
