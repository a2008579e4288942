"use strict";
// What every page shares: menus that close, dialogs that open, and a word to the person when a request fails.

const shell = (() => {
  function openMenus() {
    return document.querySelectorAll("details[data-menu][open]");
  }

  document.addEventListener("click", (event) => {
    for (const menu of openMenus()) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return; // it may cancel a word of an input method
    for (const menu of openMenus()) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });

  document.addEventListener("click", ({ target }) => {
    const opens = target.closest("[data-opens]");
    if (!opens) return;
    opens.closest("dialog")?.close();
    const dialog = document.getElementById(opens.dataset.opens);
    dialog.showModal();
    dialog.dispatchEvent(new CustomEvent("opened"));
  });

  // On a narrow window the place where one is may lie beyond the end of its list.
  for (const current of document.querySelectorAll(".nav [aria-current], .tabs [aria-current]")) {
    const list = current.closest(".nav, .tabs");
    const beyond = current.getBoundingClientRect().right - list.getBoundingClientRect().right;
    list.scrollLeft += beyond + current.offsetWidth / 2;
  }

  // A password that is being typed stays: that notice goes when somebody is signed in again.
  const SIGNED_OUT = "notice-signed-out";

  function takeBack({ signedIn = false } = {}) {
    for (const old of document.querySelectorAll("#messages [data-notice]")) {
      if (signedIn || old.dataset.notice !== SIGNED_OUT) old.remove();
    }
  }

  function notice(id) {
    const region = document.getElementById("messages");
    const template = document.getElementById(id);
    if (!region || !template) return;
    takeBack();
    if (region.querySelector(`[data-notice="${id}"]`)) return;
    const message = template.content.firstElementChild.cloneNode(true);
    message.dataset.notice = id;
    region.append(message);
  }

  function refused(status) {
    return status === 401 || status === 403;
  }

  // The server, or what it needs, is away for a moment: as if there had been no answer.
  const isAway = ({ status, headers }) => status === 503 && headers.has("Retry-After");

  document.addEventListener("htmx:response:error", (event) => {
    const { response, text } = event.detail.ctx;
    const { status } = response;
    // An answer that brings its own words (errors/part.html) needs none of ours; 400, 409 and 422 are swapped in.
    if (text.includes("<hx-partial")) return;
    if (refused(status)) notice("notice-refused");
    else if (isAway(response)) notice("notice-offline");
    else if (status === 404 || status >= 500) notice("notice-failed");
  });

  const isSignIn = ({ redirected, url }) => redirected && new URL(url).pathname === document.body.dataset.signIn;

  // An ended session answers with the sign-in page: it must not land in the middle of this one, over unsent work.
  document.addEventListener("htmx:after:request", (event) => {
    if (!isSignIn(event.detail.ctx.response.raw)) return;
    event.preventDefault();
    notice(SIGNED_OUT);
  });

  document.addEventListener("htmx:error", (event) => {
    const { ctx } = event.detail;
    if (ctx && !ctx.response) notice("notice-offline");
  });

  // Signing in elsewhere renews the token: the cookie holds the new one, this page the old one.
  const token = () => document.cookie.match(/(?:^|; )csrftoken=([^;]+)/)?.[1];

  document.addEventListener("htmx:config:request", (event) => {
    if (!token()) return;
    const { request } = event.detail.ctx;
    request.headers["X-CSRFToken"] = token();
    if (request.body.has("csrfmiddlewaretoken")) request.body.set("csrfmiddlewaretoken", token());
  });

  document.addEventListener("htmx:before:request", () => takeBack());

  // A POST of a script's own, answered as htmx is.
  function post(url, body = new URLSearchParams(), more = {}) {
    const current = token(); // a cookie is asked of another process: once
    if (current) body.set("csrfmiddlewaretoken", current);
    const headers = { "HX-Request": "true", "X-CSRFToken": current || "" };
    return fetch(url, { method: "POST", body, headers, ...more });
  }

  // The name of the notice for an answer that is not the wanted one.
  function problem(response) {
    if (isSignIn(response)) return SIGNED_OUT;
    if (isAway(response)) return "notice-offline";
    return refused(response.status) ? "notice-refused" : "notice-failed";
  }

  // The same person signs in again in place; whoever listens for "assay:signed-in" sends what waits.
  async function signInAgain(form) {
    const say = (refusal) => {
      form.querySelector("[role=status]").textContent = form.querySelector(`[data-refusal=${refusal}]`)?.textContent ?? "";
    };
    say("none");
    const response = await post(form.action, new URLSearchParams(new FormData(form))).catch(() => null);
    if (!response || isAway(response)) return notice("notice-offline");
    if (response.status >= 500) return notice("notice-failed");
    form.elements.password.value = "";
    if (response.redirected && !isSignIn(response)) {
      takeBack({ signedIn: true });
      document.dispatchEvent(new Event("assay:signed-in"));
    } else {
      say(response.status === 429 ? "many" : "wrong");
      form.elements.password.focus();
    }
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-sign-in-again]")) return;
    event.preventDefault();
    signInAgain(event.target);
  });

  return { notice, takeBack, post, problem };
})();
