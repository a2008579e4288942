"use strict";
// What is typed is kept: at once in the browser, after a pause on the server. A reload, another tab and another
// machine go on with it, and so does who signs in again.

const drafts = (() => {
  const DRAFT = "assay-draft:";
  const KEPT = 14 * 24 * 60 * 60 * 1000;
  const PAUSE = 5000; // without a change, before the server gets it
  const AGAIN = 30 * 1000; // after the server could not be reached
  const MINE = 3000; // so long after a change another tab's typing does not take its place

  let form = null;
  let seconds = 0; // spent on the item
  let changed = 0; // when the person last changed something here; 0: not yet
  let due = Infinity; // when the server gets it

  const place = () => DRAFT + form.dataset.draft;

  // The form from now on, or null; with the newer of what the browser and the server kept of it.
  function show(shown) {
    if (form) form.dataset.seconds = seconds;
    form = shown;
    changed = 0;
    due = Infinity;
    if (!form) return;
    seconds = Number(form.dataset.seconds) || 0;
    const kept = keep.json(place());
    const { saved } = form.dataset;
    // ``saved`` tells which state of the server the typing went on from: clocks of two machines differ.
    if (kept?.body && (!saved || saved === kept.saved || kept.at > saved)) fill(kept);
  }

  function fill(kept) {
    const given = new URLSearchParams(kept.body);
    for (const field of form.elements) {
      if (!field.name || field.type === "hidden") continue;
      const values = given.getAll(field.name);
      if (field.type === "radio" || field.type === "checkbox") field.checked = values.includes(field.value);
      else field.value = values[0] ?? "";
    }
    seconds = Math.max(seconds, Number(kept.seconds) || 0);
    document.dispatchEvent(new CustomEvent("assay:item"));
  }

  const body = () => new URLSearchParams(new FormData(form));

  function write() {
    const { saved } = form.dataset;
    keep.put(place(), JSON.stringify({ at: Date.now(), seconds, saved, body: body().toString() }));
  }

  async function save({ extend = false, keepalive = false } = {}) {
    due = Infinity;
    const from = form;
    if (!from?.dataset.save) return;
    const sent = body();
    sent.set("seconds", seconds.toFixed(1));
    if (extend) sent.set("extend", "yes");
    try {
      const response = await shell.post(from.dataset.save, sent, { keepalive });
      const at = response.headers.get("Assay-Saved");
      if (from !== form || response.status === 409) return; // it is submitted, or skipped
      if (!at) throw response;
      from.dataset.saved = at;
      write();
      outbox.say("drafted", new Date().toLocaleTimeString("en", { timeStyle: "short", hourCycle: "h23" }));
    } catch {
      if (from !== form) return;
      due = Math.min(due, Date.now() + AGAIN);
      outbox.say("kept");
    }
  }

  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, ({ target }) => {
      if (!form || target.form !== form) return;
      changed = Date.now();
      due = changed + PAUSE;
      write();
    });
  }
  document.addEventListener("click", ({ target }) => {
    if (form && target.closest("[data-save-draft]")) save({ extend: true });
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden" && due < Infinity) save({ keepalive: true });
  });
  window.addEventListener("storage", ({ key, newValue }) => {
    if (!form || key !== place() || !newValue || Date.now() - changed < MINE) return;
    const kept = JSON.parse(newValue);
    if (kept.saved) form.dataset.saved = kept.saved;
    fill(kept);
  });
  setInterval(() => Date.now() >= due && save(), 1000);
  for (const key of keep.keys(DRAFT)) {
    if (!(Date.now() - keep.json(key)?.at < KEPT)) keep.drop(key);
  }

  return {
    show,
    write,
    drop: (draft) => keep.drop(DRAFT + draft),
    spend: (passed) => (seconds += passed),
    seconds: () => seconds.toFixed(1),
    isTouched: () => changed > 0,
  };
})();
