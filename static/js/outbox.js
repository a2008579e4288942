"use strict";
// What is submitted waits here until its receipt came: sent one by one in the background, again with the same key
// after a lost answer, and also after a reload. The server takes a key once, so sending twice changes nothing.

const outbox = (() => {
  const LETTER = "assay-outbox:";
  const PAUSES = [1, 2, 4, 8, 15, 30]; // seconds before the next try
  const SLOW = 2000; // milliseconds after which a letter on its way is said to wait
  const PATIENCE = 30 * 1000;
  const ORPHAN = 60 * 1000; // what waits so long in another tab is sent by this one, too: that tab may be gone

  // A letter: item, key, batch, person, url, body (as a form sends it), draft (its key in the browser), at (when).
  let letters = [];
  let sending = false;
  let failures = 0;
  let isSignedOut = false; // the session ended: the person signs in again in place
  let timer = null;
  let said = ["", "", ""]; // which words, what stands in them, more of it
  let page = null; // what the page wants with the answer, and what it does with it: set by work.js
  const waiters = [];

  const note = () => document.querySelector("[data-outbox]");
  const place = (letter) => `${LETTER}${letter.item}:${letter.key}`;
  const items = () => letters.map((letter) => letter.item);
  const isEmpty = () => letters.length === 0;

  function open(handlers) {
    page = handlers;
    letters = kept().sort((one, other) => one.at - other.at);
  }

  function kept() {
    const mine = (letter) => letter && letter.person === note()?.dataset.person;
    return keep.keys(LETTER).map(keep.json).filter(mine);
  }

  function adopt() {
    const had = letters.map(place);
    letters.push(...kept().filter((one) => !had.includes(place(one)) && Date.now() - one.at > ORPHAN));
    pump();
  }

  function add(letter) {
    letters.push({ ...letter, ...note().dataset, at: Date.now() });
    keep.put(place(letter), JSON.stringify(letters.at(-1)));
    setTimeout(show, SLOW);
    setTimeout(pump); // the next item first
  }

  // Runs what must not overtake what was sent: at once, or when all of it has arrived.
  function whenEmpty(act) {
    if (isEmpty()) act();
    else waiters.push(act);
  }

  // ---- on the way

  async function deliver(letter) {
    const body = new URLSearchParams(letter.body);
    const { had, ...wanted } = page.wants(letter);
    for (const item of had) body.append("had", item);
    for (const [name, value] of Object.entries(wanted)) body.set(name, value);
    try {
      const response = await shell.post(letter.url, body, { signal: AbortSignal.timeout(PATIENCE) });
      const told = (name) => response.headers.get(name);
      const outcome = told("Assay-Outcome");
      if (!outcome) return { problem: shell.problem(response) };
      const text = await response.text();
      return { outcome, next: wanted.next, redirect: told("HX-Redirect"), receipt: told("Assay-Receipt"), text };
    } catch {
      return { problem: "notice-offline" };
    }
  }

  async function pump() {
    if (sending || isEmpty() || !note()) return;
    clearTimeout(timer);
    sending = true;
    const letter = letters[0];
    const answer = await deliver(letter);
    sending = false;
    shell.takeBack({ signedIn: !answer.problem });
    if (answer.problem) return again(answer.problem);
    failures = 0;
    letters.shift();
    keep.drop(place(letter));
    page.answered(letter, answer);
    say("saved", answer.receipt?.slice(0, 8), answer.receipt);
    if (isEmpty()) for (const act of waiters.splice(0)) act();
    pump();
  }

  function again(problem) {
    if (problem !== "notice-offline") shell.notice(problem); // without a line the note says enough
    if (problem === "notice-failed") letters.push(letters.shift()); // it may be this one alone
    timer = setTimeout(pump, PAUSES[Math.min(failures, PAUSES.length - 1)] * 1000);
    failures += 1;
    isSignedOut = problem === "notice-signed-out";
    show();
  }

  // ---- what the person sees

  function say(...words) {
    said = words;
    show();
  }

  // ``pressed``: somebody wants to know what became of the last one.
  function show(pressed) {
    const here = note();
    if (!here) return;
    const late = letters.filter((letter) => pressed || failures || Date.now() - letter.at >= SLOW).length;
    page?.showWaiting(late, !failures ? "slow" : isSignedOut ? "signedOut" : "offline");
    const [name, value, more] = late ? ["waiting", late] : said;
    const text = value || name === "kept" ? here.dataset[name].replace(/\{\w+\}/, value) : "";
    here.classList.toggle("outbox--waiting", late > 0);
    here.title = more || "";
    if (here.textContent !== text) here.textContent = text;
  }

  setInterval(adopt, ORPHAN);
  window.addEventListener("online", pump);
  document.addEventListener("assay:signed-in", pump);
  window.addEventListener("beforeunload", (event) => {
    if (!isEmpty()) event.preventDefault();
  });
  // In another tab: an item was submitted, or has arrived.
  window.addEventListener("storage", ({ key, newValue }) => {
    if (key?.startsWith(LETTER)) page.elsewhere(key.split(":")[1], !newValue);
  });

  return { open, add, items, isEmpty, whenEmpty, send: pump, say, show };
})();
