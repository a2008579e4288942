"use strict";
// The author's bench: what is typed is kept in the browser at once and on the server after a pause, near texts and
// answers come into the page, and a proposal that cannot be sent waits until it can.

(() => {
  const DRAFT = "assay-draft:";
  const UNSENT = "assay-unsent:";
  const SAVE_AFTER = 3000;
  const CHECK_AFTER = 600;
  const POLL = 1500;

  const page = () => document.querySelector("[data-bench]");
  const form = () => document.getElementById("bench-form");
  const answers = () => document.getElementById("answers");
  const body = () => new URLSearchParams(new FormData(form()));
  const place = () => DRAFT + form().dataset.draft;

  let saveDue = Infinity;
  let checkDue = Infinity;
  let pollDue = Infinity;
  let isBusy = false;

  function say(name, time = "") {
    const note = document.querySelector("[data-bench-note]");
    if (note) note.textContent = name ? note.dataset[name].replace("{time}", time) : "";
  }

  // ---- drafts

  function write() {
    keep.put(place(), JSON.stringify({ at: Date.now(), saved: form().dataset.saved, body: body().toString() }));
  }

  // What the browser has and the server has not, as after a crash or offline; what was saved later elsewhere is newer.
  function restore() {
    const kept = keep.json(place());
    const isNewer = kept && (kept.saved === form().dataset.saved || kept.at > Date.parse(form().dataset.saved));
    if (!isNewer) return keep.drop(place());
    const values = new URLSearchParams(kept.body);
    for (const field of form().elements) {
      if (!field.name || field.type === "hidden" || field.name === "target") continue;
      if (field.type === "radio") field.checked = values.get(field.name) === field.value;
      else field.value = values.get(field.name) ?? "";
    }
    saveDue = Date.now();
  }

  async function save({ keepalive = false } = {}) {
    saveDue = Infinity;
    const from = form();
    try {
      const response = await shell.post(from.dataset.save, body(), { keepalive });
      const at = response.headers.get("Assay-Saved");
      if (!at) throw response;
      if (from !== form()) return;
      from.dataset.saved = at;
      if (saveDue === Infinity) keep.drop(place());
      say("drafted", new Date().toLocaleTimeString("en", { timeStyle: "short", hourCycle: "h23" }));
    } catch (problem) {
      if (from !== form() || problem.status === 409) return; // it was submitted meanwhile
      say("kept");
      saveDue = Date.now() + 10 * SAVE_AFTER;
    }
  }

  // ---- near texts

  async function check() {
    checkDue = Infinity;
    const text = form().elements.text.value;
    const response = await shell.post(page().dataset.near, body()).catch(() => null);
    if (!response?.ok || shell.problem(response) === "notice-signed-out" || form()?.elements.text.value !== text) return;
    document.getElementById("near").innerHTML = await response.text();
    showReason();
  }

  function showReason() {
    const level = document.querySelector("#near [data-level]")?.dataset.level;
    const field = document.querySelector("[data-duplicate-reason]");
    field.hidden = level !== "block" && !field.querySelector("textarea").value;
  }

  // ---- answers

  function showAnswers(html) {
    const inside = answers().contains(document.activeElement);
    const current = document.activeElement?.closest?.("[data-answer]")?.dataset.answer;
    const radio = document.activeElement?.matches?.("[type=radio]") ? document.activeElement : null;
    const chosen = [...answers().querySelectorAll("[data-answer] :checked")].map((input) => [
      input.closest("[data-answer]").dataset.answer, input.name, input.value]);
    answers().innerHTML = html;
    for (const [answer, name, value] of chosen) {
      const again = find(answer, name, value);
      if (again) again.checked = true;
    }
    if (inside) {
      const again = radio && current && find(current, radio.name, radio.value);
      (again || card(current) || answers()).focus({ preventScroll: true });
    }
    pollDue = answers().querySelector("[data-asking]") ? Date.now() + POLL : Infinity;
  }

  const card = (answer) => answer && answers().querySelector(`[data-answer="${answer}"]`);
  const find = (answer, name, value) =>
    card(answer)?.querySelector(`[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`);

  async function send(url, more = new URLSearchParams()) {
    const values = form() ? body() : new URLSearchParams();
    for (const [name, value] of more) values.set(name, value);
    const response = await shell.post(url, values).catch(() => null);
    if (!response) return shell.notice("notice-offline");
    const isPart = response.ok || response.status === 422;
    if (!isPart || shell.problem(response) === "notice-signed-out") return shell.notice(shell.problem(response));
    const at = response.headers.get("Assay-Saved"); // asking saves the draft too
    if (at && form()) form().dataset.saved = at;
    shell.takeBack();
    showAnswers(await response.text());
  }

  async function ask() {
    if (isBusy) return;
    isBusy = true;
    await send(form().dataset.ask);
    isBusy = false;
    saveDue = Infinity;
    answers().querySelector("[data-answer]")?.focus();
  }

  async function poll() {
    pollDue = Infinity;
    const response = await shell.post(page().dataset.attempts, form() ? body() : undefined).catch(() => null);
    if (response?.ok && shell.problem(response) !== "notice-signed-out") showAnswers(await response.text());
    else pollDue = Date.now() + 4 * POLL;
  }

  // ---- submitting

  async function submit() {
    if (isBusy || !form().reportValidity()) return;
    write();
    await deliver(form().action, body());
  }

  async function deliver(url, values) {
    isBusy = true;
    page().inert = true; // what is typed now would go with the page that the answer replaces
    const response = await shell.post(url, values).catch(() => null);
    page().inert = isBusy = false;
    const problem = response && shell.problem(response);
    const isAnswer = response && (response.ok || [409, 422].includes(response.status)) && problem !== "notice-signed-out";
    if (!isAnswer) {
      // It waits under its key: sent twice it is taken once.
      keep.put(UNSENT + url, values.toString());
      if (response) shell.notice(problem);
      return say("unsent");
    }
    keep.drop(UNSENT + url);
    keep.drop(place());
    swap(await response.text(), response.redirected ? response.url : "");
  }

  function resend() {
    const url = form()?.action;
    const values = url && keep.text(UNSENT + url);
    if (values && !isBusy) deliver(url, new URLSearchParams(values));
  }

  function swap(html, url) {
    const shown = new DOMParser().parseFromString(html, "text/html");
    document.getElementById("main").innerHTML = shown.getElementById("main").innerHTML;
    document.getElementById("messages").innerHTML = shown.getElementById("messages").innerHTML;
    if (url) history.pushState(null, "", url);
    show();
    scrollTo(0, 0);
    if (!document.getElementById("refusal")) form()?.elements.text.focus({ preventScroll: true });
  }

  // The guideline's clause and the method beside the text are those of the cell.
  async function changeCell() {
    await save();
    const response = await fetch(location.href).catch(() => null);
    if (!response?.ok || response.redirected) return;
    const shown = new DOMParser().parseFromString(await response.text(), "text/html");
    const side = shown.querySelector(".bench__side");
    if (side) document.querySelector(".bench__side").innerHTML = side.innerHTML;
    poll();
  }

  // ---- the page

  function show() {
    [saveDue, checkDue, pollDue] = [Infinity, Infinity, Infinity];
    if (answers()?.querySelector("[data-asking]")) pollDue = Date.now() + POLL;
    if (!form()) return;
    restore();
    resend();
  }

  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, ({ target }) => {
      if (!form() || target.form !== form()) return;
      if (target.name === "target") return;
      write();
      saveDue = Date.now() + SAVE_AFTER;
      if (target.name === "text") checkDue = Date.now() + CHECK_AFTER;
      if (kind === "change" && target.name === "cell") changeCell();
    });
  }

  document.addEventListener("submit", (event) => {
    const { target, submitter } = event;
    if (target.matches("[data-levels]")) {
      event.preventDefault();
      send(target.action, new URLSearchParams(new FormData(target)));
    } else if (target === form()) {
      event.preventDefault();
      if (submitter?.matches("[data-ask-button]")) ask();
      else submit();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || !page()) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form()) {
      event.preventDefault();
      if (event.shiftKey) submit();
      else ask();
      return;
    }
    const here = event.target.closest?.("[data-answer]");
    if (!here || event.ctrlKey || event.altKey || event.metaKey) return;
    if (/^[0-9]$/.test(event.key)) {
      const radio = here.querySelector(`[data-key="${event.key}"]`);
      if (!radio) return;
      event.preventDefault();
      radio.checked = true;
      radio.focus();
    } else if (["ArrowDown", "ArrowUp"].includes(event.key) && !event.target.matches("[type=radio]")) {
      const all = [...answers().querySelectorAll("[data-answer]")];
      const next = all[all.indexOf(here) + (event.key === "ArrowDown" ? 1 : -1)];
      if (!next) return;
      event.preventDefault();
      next.focus();
    }
  });

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden" && form() && saveDue < Infinity) save({ keepalive: true });
  });
  window.addEventListener("online", resend);
  document.addEventListener("assay:signed-in", resend);
  window.addEventListener("popstate", () => location.reload());

  setInterval(() => {
    wellbeing.tick();
    const now = Date.now();
    if (form() && now >= saveDue) save();
    if (form() && now >= checkDue) check();
    if (now >= pollDue && answers()) poll();
  }, 250);

  show();
})();
