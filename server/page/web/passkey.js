// Passkeys: one is made in Settings, and confirms what takes more than a session.
import {change, Refusal} from './client.js';

/** Why no passkey can be used on this page; '' if one can. */
export function whyNot() {
  if (!['superloop.localhost', 'localhost'].includes(location.hostname)) return `A browser uses passkeys for names only, and this page was opened by the address ${location.hostname}. superloop ui opens it by its name.`;
  return 'credentials' in navigator && 'PublicKeyCredential' in window ? '' : 'This browser knows no passkeys.';
}

/** @param {string} s base64url */
function bytes(s) {
  return Uint8Array.from(atob(s.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
}

/** @param {ArrayBuffer} b */
function text(b) {
  return btoa(String.fromCharCode(...new Uint8Array(b))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** @param {any[]} list */
const named = (list) => list.map((c) => ({...c, id: bytes(c.id)}));

/** @param {any} c @param {any} response */
const answer = (c, response) => ({id: c.id, rawId: c.id, type: c.type, clientExtensionResults: {}, response: {clientDataJSON: text(c.response.clientDataJSON), ...response}});

/** What went wrong, for a reader. @param {unknown} e */
export function told(e) {
  if (e instanceof Refusal) return e.message;
  switch (/** @type {Error} */ (e).name) {
    case 'NotAllowedError': return 'No passkey was used: it was cancelled, or took too long.';
    case 'InvalidStateError': return 'This device has a passkey of this page already.';
    case 'NotSupportedError': case 'ConstraintError': return 'This device cannot make such a passkey: it has to recognise you, by a PIN or by what you are.';
  }
  return /** @type {Error} */ (e).message;
}

/**
 * Has a passkey confirm what a refusal asks about, and returns the code with which the request may be sent again.
 * @param {Refusal} why @returns {Promise<string>}
 */
export async function confirmed(why) {
  const o = why.passkey;
  /** @type {any} */
  const c = await navigator.credentials.get({publicKey: {...o, challenge: bytes(o.challenge), allowCredentials: named(o.allowCredentials)}});
  const r = c.response;
  const signed = answer(c, {authenticatorData: text(r.authenticatorData), signature: text(r.signature), ...(r.userHandle ? {userHandle: text(r.userHandle)} : {})});
  return (await change('POST', `/api/v1/confirmations/${encodeURIComponent(why.challenge)}/passkey`, {answer: signed})).code;
}

/** Makes a passkey, and lets it confirm from now on. That asks for a code from a terminal. @param {string} name */
export async function make(name) {
  const o = await change('POST', '/api/v1/passkeys/options');
  /** @type {any} */
  const c = await navigator.credentials.create({publicKey: {...o, challenge: bytes(o.challenge), user: {...o.user, id: bytes(o.user.id)}, excludeCredentials: named(o.excludeCredentials)}});
  await change('POST', '/api/v1/passkeys', {name, answer: answer(c, {attestationObject: text(c.response.attestationObject), transports: c.response.getTransports?.() ?? []})});
}
