import {confirmWith, Refusal} from './client.js';
import {h} from './dom.js';
import {confirmed, told, whyNot} from './passkey.js';

/**
 * Shows a dialog, and returns the value of the button that closed it; '' if it was left.
 * @param {string} title @param {any[]} body @param {{value: string, label: any, strong?: boolean}[]} buttons
 * @returns {Promise<string>}
 */
export function dialog(title, body, buttons) {
  const d = h('dialog', {'aria-labelledby': 'dialog-title'},
    h('form', {method: 'dialog'},
      h('h2', {id: 'dialog-title'}, title), body,
      h('div.buttons', null, buttons.map((b) => h(b.strong ? 'button.strong' : 'button', {value: b.value}, b.label)), h('button', {value: '', formnovalidate: true}, 'Leave it'))));
  const before = /** @type {HTMLElement|null} */ (document.activeElement);
  document.body.append(d);
  d.showModal();
  /** @type {HTMLElement|null} */ (d.querySelector('[autofocus]') ?? d.querySelector('input') ?? d.querySelector('button'))?.focus();
  return new Promise((ok) => d.addEventListener('close', () => {
    d.remove();
    before?.focus?.();
    ok(d.returnValue);
  }));
}

/** Says something for a while, in a place that is read aloud. @param {any[]} what @param {boolean} [bad] */
export function tell(what, bad) {
  const place = document.getElementById('told');
  if (!place) return;
  const line = h(bad ? 'p.bad' : 'p', null, what, h('button.quiet', {'aria-label': 'Close this message', onclick: () => line.remove()}, '×'));
  place.append(line);
  setTimeout(() => line.remove(), bad ? 20_000 : 6_000);
}

/** A command to type, with a button that copies it. @param {string} line */
export function typed(line) {
  const said = h('span.faint', {role: 'status'});
  return h('span.typed', null, h('code', null, line), h('button.quiet', {type: 'button', 'aria-label': 'Copy: ' + line, onclick: async () => {
    await navigator.clipboard.writeText(line).catch(() => {});
    said.textContent = ' copied';
    setTimeout(() => said.textContent = '', 1500);
  }}, 'copy'), said);
}

/** What the passkey that was asked last has failed of, for the next dialog. */
let failed = '';

confirmWith(async (why, wrong) => {
  const code = h('input.code', {name: 'code', autocomplete: 'off', autocapitalize: 'characters', spellcheck: 'false', required: true, 'aria-label': 'The code of superloop confirm', placeholder: 'ABCD-EFGH'});
  const passkey = why.passkey && !whyNot();
  let said = failed || (wrong ? why.message : '');
  failed = '';
  for (;;) {
    const got = await dialog(passkey ? 'Confirm this' : 'Confirm this on a terminal', [
      said && h('p.bad', {role: 'alert'}, said),
      passkey && [h('p', null, 'A session in a browser is not enough to:'), h('p', null, h('code', null, why.what)),
        h('p', null, h('button.strong', {type: 'button', autofocus: true, onclick: (/** @type {Event} */ e) => /** @type {Element} */ (e.target).closest('dialog')?.close('passkey')}, 'Confirm with a passkey'))],
      h('p', null, passkey ? 'Or, on a terminal of yours, type:' : 'A session in a browser is not enough for this. On a terminal of yours, type:'),
      h('p', null, typed(why.next ?? 'superloop confirm')),
      h('p', null, 'It shows what would be done. If that is your wish, it prints a code. ', code),
    ], [{value: 'ok', label: 'Go on with this code', strong: !passkey}]);
    if (got === 'ok' && code.value) return code.value;
    if (got !== 'passkey') return null;
    try {
      return await confirmed(why);
    } catch (e) {
      said = told(e);
      if (e instanceof Refusal) { // the daemon looks at one challenge once
        failed = said;
        return '';
      }
    }
  }
});
