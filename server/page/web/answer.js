import {change, Refusal} from './client.js';
import {fill, h, visible} from './dom.js';
import {command} from './text.js';

/** @typedef {{id: string, name: any, says: () => any, body: () => any, more?: HTMLElement, danger?: boolean}} Way */

/** The part of a question in which it is answered. The answer carries the id and the digest of what is shown here. */
export class Answer {
  /** @param {any} q @param {any} screen */
  constructor(q, screen) {
    this.q = q;
    this.screen = screen;
    const c = q.command;
    this.edited = h('textarea', {rows: 3, spellcheck: 'false', 'aria-label': 'Your own command', oninput: () => this.name()});
    if (c) this.edited.value = c.text;
    const choices = (q.options ?? []).filter((/** @type {any} */ o) => o.answer === 'choose');
    this.option = h('select', {'aria-label': 'The option', onchange: () => this.name()}, choices.map((/** @type {any} */ o) => h('option', {value: o.id}, o.label || o.id)));
    this.optionSays = h('code.block');
    const run = () => h('code', null, command(c.display));
    const words = kinds[q.question?.type] ?? kinds.other;
    const picked = () => choices.find((/** @type {any} */ o) => o.id === this.option.value);
    /** @type {Way[]} */
    this.ways = [];
    if (c && q.question?.type !== 'tool_permission') {
      this.ways.push({id: 'approve', name: 'Approve, once', says: () => ['Run once: ', run()], body: () => ({method: 'approve'})},
        {id: 'remember', name: 'Approve, and from now on without me', says: () => ['Run, now and from now on: ', run()], body: () => ({method: 'approve', remember: true}),
          more: h('div', null, h('p.faint', null, 'superloop adds the exact command to the list of the policy that judged it, and asks for a confirmation, on a terminal or with a passkey:'), h('pre.diff', {tabindex: '0'}, h('span', null, '  "auto_approve": [\n'), h('ins', null, '+   ', JSON.stringify(c.text), '\n'), h('span', null, '  ]')))});
      if (choices.length) this.ways.push({id: 'choose', name: 'Another option', says: () => ['Run once: ', h('code', null, picked()?.command ?? '')], body: () => ({method: 'choose', option: this.option.value}), more: h('div', null, this.option, this.optionSays)});
      this.ways.push({id: 'edit', name: 'My own command instead', says: () => ['Run once: ', h('code', null, this.edited.value || '…')], body: () => ({method: 'edit', command: this.edited.value}), more: h('div', null, this.edited, h('p.faint', null, 'It runs in the same directory and sandbox, is recorded as yours, and asks for a confirmation, on a terminal or with a passkey.'))});
      this.ways.push({id: 'reject', name: 'Reject', says: () => ['Do not run: ', run()], body: () => ({method: 'reject'}), danger: true},
        {id: 'manual', name: 'I have done it by hand', says: () => ['It is done by hand; the tests run again'], body: () => ({method: 'manual'})});
    } else {
      this.ways.push({id: 'approve', name: words[0], says: () => [words[0]], body: () => ({method: 'approve'})}, {id: 'reject', name: words[1], says: () => [words[1]], body: () => ({method: 'reject'}), danger: true});
      if (words[2]) this.ways.push({id: 'manual', name: words[2], says: () => [words[2]], body: () => ({method: 'manual'})});
    }
    this.way = this.ways[0];
    this.note = h('input', {type: 'text', 'aria-label': 'Why; the next roles read it', placeholder: 'Why (the next roles read it)', maxlength: 4000});
    this.button = h('button.strong.confirm', {type: 'submit'});
    this.error = h('p.bad', {role: 'alert', hidden: true});
    this.more = h('div.more');
    this.el = h('section.answer', {'aria-label': 'Your answer'}, h('form', {onsubmit: (/** @type {Event} */ e) => {
      e.preventDefault();
      void this.send();
    }}, h('fieldset', null, h('legend', null, 'Your answer'), this.ways.map((w, i) => h('label.way', null, h('input', {type: 'radio', name: 'way', value: w.id, checked: i === 0, onchange: () => this.pick(w)}), h('span', null, w.name)))), this.more, this.note, this.error, this.button));
    this.pick(this.way);
  }

  /** @param {Way} w */
  pick(w) {
    this.way = w;
    fill(this.more, w.more ?? '');
    this.name();
  }

  /** The button says what it does, with the command. */
  name() {
    fill(this.button, this.way.says());
    this.button.classList.toggle('no', !!this.way.danger);
    const o = (this.q.options ?? []).find((/** @type {any} */ x) => x.id === this.option.value);
    if (o) fill(this.optionSays, o.command ?? '');
  }

  async send() {
    visible(this.error, false);
    this.button.disabled = true;
    this.screen.mine = true;
    try {
      await change('POST', `/api/v1/escalations/${encodeURIComponent(this.q.id)}/answer`, {...this.way.body(), digest: this.q.digest, note: this.note.value});
      await this.screen.load();
      /** @type {HTMLElement|null} */ (this.screen.querySelector('.answer.over a'))?.focus();
    } catch (e) {
      this.screen.mine = false;
      const r = /** @type {Refusal} */ (e);
      switch (r.kind) {
        case 'stale-digest':
          await this.screen.load('The question is another one than the one that you have looked at. It is shown anew: look at it again before you answer.');
          break;
        case 'already-decided': case 'not-waiting': case 'expired':
          await this.screen.load(`Your answer does not count: ${r.message}.`);
          break;
        default:
          fill(this.error, r.message, r.next ? [' ', h('code', null, r.next)] : '');
          visible(this.error, true);
      }
    } finally {
      this.button.disabled = false;
    }
  }
}

/** What the answers to a question without a command do. @type {Record<string, string[]>} */
const kinds = {
  completion_approval: ['Yes, the loop is done', 'No, another iteration', 'Run the gates once more'],
  tool_permission: ['Allow it once', 'Refuse it', 'Refuse it: it is done by hand'],
  role_failure: ['Try it again', 'End the loop', 'It is mended: try it again'],
  runner_unavailable: ['Try it again', 'End the loop', 'It is mended: try it again'],
  remediation_exhausted: ['Run the role nevertheless', 'End the loop', 'Look at the environment again'],
  other: ['Approve', 'Reject', 'It is done by hand'],
};
