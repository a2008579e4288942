"use strict";
// A passkey is made, or used, and the form brings what the device says. Bytes go as base64url.

(() => {
  const form = document.querySelector("form[data-passkey]");
  if (!form) return;
  const start = form.querySelector("[data-passkey-start]");
  const failed = form.querySelector("[data-passkey-failed]");

  if (!window.PublicKeyCredential) {
    form.querySelector("[data-passkey-missing]").hidden = false;
    return;
  }

  const toBytes = (text) => {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
  };
  const toText = (bytes) => {
    const plain = btoa(String.fromCharCode(...new Uint8Array(bytes)));
    return plain.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  };
  const readList = (list) => (list || []).map((entry) => ({ ...entry, id: toBytes(entry.id) }));

  async function ask() {
    const { publicKey } = JSON.parse(form.dataset.options);
    publicKey.challenge = toBytes(publicKey.challenge);
    if (form.dataset.passkey === "create") {
      publicKey.user.id = toBytes(publicKey.user.id);
      publicKey.excludeCredentials = readList(publicKey.excludeCredentials);
      return navigator.credentials.create({ publicKey });
    }
    publicKey.allowCredentials = readList(publicKey.allowCredentials);
    return navigator.credentials.get({ publicKey });
  }

  start.addEventListener("click", async () => {
    failed.hidden = true;
    start.disabled = true;
    try {
      const made = await ask();
      const response = {};
      for (const part of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
        if (made.response[part]) response[part] = toText(made.response[part]);
      }
      const { id, type } = made;
      const clientExtensionResults = made.getClientExtensionResults();
      const credential = { id, rawId: id, type, response, clientExtensionResults };
      form.elements.credential.value = JSON.stringify(credential);
      form.submit();
    } catch {
      failed.hidden = false;
      start.disabled = false;
    }
  });
  start.disabled = false; // the page disables it: a click before this script listens would be lost
})();
