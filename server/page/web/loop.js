import {change, get, on, watch, world} from './client.js';
import {dialog, tell, typed} from './dialogs.js';
import {fill, h, say, Screen, visible} from './dom.js';
import {LogView} from './log.js';
import {diffLines} from './diff.js';
import {asks, can, dots, doing, ended, eventsOf, gates, goes, next, silent, spent, spentOn, status, where} from './states.js';
import {Timeline} from './timeline.js';
import {ago, calm, clock, count, moment, some, timeOfDay} from './time.js';

const tabs = /** @type {const} */ ([['log', 'Log'], ['prompt', 'Prompt'], ['timeline', 'Timeline'], ['gates', 'Gates'], ['diff', 'Diff'], ['events', 'Events']]);

class LoopScreen extends Screen {
  of = '';
  tab = '';
  query = '';

  begin() {
    this.id = this.of;
    this.path = '/api/v1/loops/' + encodeURIComponent(this.id);
    this.name = h('h1');
    this.head = h('p.meta');
    this.next = clock((now) => this.r ? next(this.r, now) : '', 'p', {class: 'next'});
    this.acts = h('div.acts');
    this.question = h('p', {hidden: true});
    this.figures = h('dl.figures');
    this.nav = h('div.tabs', {role: 'tablist', 'aria-label': 'What is shown of the loop'}, tabs.map(([id, name]) => h('button', {type: 'button', role: 'tab', id: 'tab-' + id, 'aria-controls': 'panel', onclick: () => this.open(id), onkeydown: (/** @type {KeyboardEvent} */ e) => this.turn(e)}, name)));
    this.panel = h('div', {id: 'panel', role: 'tabpanel', tabindex: '0'});
    this.append(h('div.loophead', null, h('div', null, this.name, this.head, this.next, this.question, this.acts), this.figures), this.nav, this.panel);
    on('rows', () => this.row(), this.life.signal);
    watch(this.id, () => this.news(), this.life.signal);
    this.row();
    addEventListener('hashchange', () => this.moved(), {signal: this.life.signal});
    this.moved();
  }

  moved() {
    const [id, query] = location.hash.slice(1).split('?');
    if (tabs.some(([t]) => t === id)) this.open(id, true, query);
    else this.open(this.tab || 'log', true, this.query);
  }

  row() {
    const r = world.rows.get(this.id);
    if (!r) {
      say(this.name, world.told ? 'The daemon knows no such loop' : 'Reading the loop …');
      return;
    }
    const old = this.r;
    this.r = r;
    document.title = `${r.loop} – superloop`;
    say(this.name, r.loop);
    const [word, tone] = status(r);
    if (!old || old.status !== r.status || old.sub_status !== r.sub_status || old.phase !== r.phase || old.status_since !== r.status_since || old.branch !== r.branch || old.supervised !== r.supervised) {
      fill(this.head, h('span.st.' + tone, null, word), ' ', r.status_since ? h('a.faint', {href: eventsOf(this.id, {from: r.status_since})}, ago(r.status_since)) : '', h('span', {title: r.repo}, ' · ' + where(r)), r.labels?.length ? ' · ' + r.labels.join(', ') : '');
      this.actions(r);
    }
    say(this.next, next(r, Date.now()));
    visible(this.question, !!(asks(r) && r.question));
    if (r.question && this.asked !== r.question) fill(this.question, h('a.button.strong', {href: '/questions/' + encodeURIComponent(r.question), 'data-row': true}, 'Look at its question'));
    this.asked = r.question;
    if (JSON.stringify(old) !== JSON.stringify(r)) this.facts(r);
    if (old && (old.role !== r.role || old.iteration !== r.iteration)) this.view?.moved?.(r);
  }

  /** @param {any} r */
  facts(r) {
    fill(this.figures, [
      ['Iteration', r.iteration ? h('a', {href: '#timeline'}, `${r.iteration}${r.max_iterations ? ' of ' + r.max_iterations : ''}`) : 'none yet'],
      ['Now', status(r)[1] === 'run' && doing(r) ? h('a', {href: '#log'}, doing(r), r.attempt > 1 ? `, attempt ${r.attempt}` : '', ' ', clock((now) => silent(r, now) ? `silent ${calm(silent(r, now))}` : r.updated_at ? calm(now - Date.parse(r.updated_at)) : '')) : '–'],
      ['Gates', r.gates ? h('a', {href: '#gates'}, dots(r.gates)) : '–'],
      ['Spent', h('a', {href: spentOn(r)}, spent(r), r.tokens ? ` · ${count(r.tokens)} tokens` : '')],
    ].map(([name, v]) => [h('dt', null, name), h('dd', null, v)]));
  }

  /** @param {any} r */
  actions(r) {
    /** @type {[string, string][]} */
    const acts = [];
    if (r.as_of) return fill(this.acts, []);
    const runs = goes(r) && !ended(r);
    if (runs && r.supervised) acts.push(['pause', 'Pause']);
    if (!runs && r.status !== 'completed') acts.push(['start', ended(r) ? 'Start again' : r.status === 'pending' ? 'Start' : 'Resume']);
    if (r.status === 'rate_limited' || r.phase === 'waiting' && !asks(r)) acts.push(['retry-now', 'Try now']);
    if (runs && can(r, 'stop-loop')) acts.push(['stop', 'Stop']);
    if (r.supervised && !ended(r)) acts.push(['cancel', 'Cancel']);
    if (r.status !== 'completed') acts.push(['note', 'Note to the roles']);
    const at = this.acts.contains(document.activeElement);
    fill(this.acts, acts.map(([act, name]) => h('button', {type: 'button', onclick: () => this.act(act, name)}, name)));
    if (at) this.acts.querySelector('button')?.focus();
  }

  /** @param {string} act @param {string} name */
  async act(act, name) {
    /** @type {any} */
    const body = {};
    if (act === 'cancel' && await dialog(`Cancel ${this.r.loop}?`, [h('p', null, 'What it runs is ended at once. Nothing is deleted; started again, it goes on where it stood.')], [{value: 'yes', label: `Cancel ${this.r.loop}`, strong: true}]) !== 'yes') return;
    if (act === 'note') {
      const text = h('textarea', {rows: 4, cols: 50, 'aria-label': 'What the next roles are told'});
      if (await dialog(`A note to the roles of ${this.r.loop}`, [text], [{value: 'yes', label: 'Tell them', strong: true}]) !== 'yes' || !text.value.trim()) return;
      body.note = text.value;
    }
    try {
      await change('POST', `${this.path}/${act}`, body);
      tell([`${name}: asked.`]);
    } catch (e) {
      tell([/** @type {Error} */ (e).message], true);
    }
  }

  /** @param {KeyboardEvent} e */
  turn(e) {
    const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!step) return;
    const i = tabs.findIndex(([t]) => t === this.tab);
    const to = tabs[(i + step + tabs.length) % tabs.length][0];
    this.open(to);
    document.getElementById('tab-' + to)?.focus();
    e.preventDefault();
  }

  /** @param {string} tab @param {boolean} [quiet] @param {string} [query] which events */
  open(tab, quiet, query = '') {
    if (tab === this.tab && query === this.query) return;
    this.tab = tab;
    this.query = query;
    if (!quiet) history.replaceState(null, '', location.pathname + '#' + tab);
    for (const b of this.nav.children) {
      const is = b.id === 'tab-' + tab;
      b.setAttribute('aria-selected', String(is));
      b.setAttribute('tabindex', is ? '0' : '-1');
    }
    this.panel.setAttribute('aria-labelledby', 'tab-' + tab);
    this.inner?.abort();
    this.inner = new AbortController();
    const end = this.inner;
    this.life.signal.addEventListener('abort', () => end.abort());
    const views = {log: () => new LogView(this, false), prompt: () => new LogView(this, true), timeline: () => new Timeline(this), gates: () => new Gates(this), diff: () => new Diff(this), events: () => new Events(this)};
    this.view = /** @type {any} */ (views)[tab](this);
    fill(this.panel, this.view.el);
  }

  /** Events have come. */
  news() {
    if (this.soon) return;
    this.soon = setTimeout(() => {
      this.soon = 0;
      if (this.alive) this.view?.news?.();
    }, 150);
  }
}

/** What the events of a loop are chosen by, in the address. */
const choices = ['event', 'role', 'runner', 'model', 'from', 'to'];

/** Choices that are offered. @type {[string, string][]} */
const kinds = [['', 'all'], ['role_*', 'roles'], ['role_[ft]*', 'failures'], ['tests_*', 'tests'], ['gates_evaluated', 'gates'], ['recovery_*', 'recoveries']];

/** The events of a loop, as sentences. They are asked for by their number, so that none is missed and none comes twice. */
class Events {
  /** @param {any} screen */
  constructor(screen) {
    this.screen = screen;
    this.signal = screen.inner.signal;
    this.last = 0;
    this.first = 0;
    const asked = new URLSearchParams(screen.query);
    /** @type {[string, string][]} */
    this.chosen = choices.filter((c) => asked.get(c)).map((c) => [c, asked.get(c) ?? '']);
    this.query = this.chosen.length ? '&' + new URLSearchParams(this.chosen) : '';
    this.list = h('ol.events', {'aria-label': 'Events, the newest first'});
    this.none = h('p.faint', {hidden: true}, 'No event is like that.');
    this.older = h('button', {type: 'button', hidden: true, onclick: () => this.back()}, 'Older events');
    this.chain = h('span.faint', {role: 'status'});
    const event = asked.get('event') ?? '', of = this.chosen.filter(([c]) => c !== 'event');
    const flags = this.chosen.filter(([c]) => c === 'event' || c === 'role').map(([c, v]) => ` --${c} '${v.replaceAll("'", "'\\''")}'`).join('');
    this.el = h('div', null, h('div.bar', null, h('div.chips', {role: 'group', 'aria-label': 'Only events about'}, kinds.map(([v, name]) => h('a.chip', {href: eventsOf(screen.id, {...Object.fromEntries(of), event: v}), 'aria-current': v === event ? 'true' : null}, name)),
      event && !kinds.some(([v]) => v === event) ? h('a.chip', {href: location.pathname + location.hash, 'aria-current': 'true'}, h('code', null, event)) : '',
      of.map(([c, v]) => h('a.chip', {href: eventsOf(screen.id, {...Object.fromEntries(this.chosen), [c]: ''}), 'aria-current': 'true', title: 'Show the others too'}, `${c} ${c === 'from' || c === 'to' ? moment(v) : v} ×`))),
    h('button', {type: 'button', onclick: () => this.verify()}, 'Verify the chain'), this.chain, h('span.faint', null, typed(`superloop events --loop ${screen.r?.loop ?? ''}${flags} --json`))), this.list, this.none, this.older);
    void this.news();
    if ((screen.r?.seq ?? 0) < 20_000) void this.verify();
  }

  async news() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      do {
        this.again = false;
        const begun = this.last > 0, page = await get(`${this.screen.path}/said?limit=${begun ? 500 : 200}${begun ? '&after=' + this.last : ''}${this.query}`);
        if (this.signal.aborted) return;
        for (const s of page.sentences) this.list.prepend(line(s));
        if (!begun) this.more(page, 200);
        this.last = page.after;
        visible(this.none, this.list.children.length === 0);
        this.again ||= page.sentences.length === 500;
      } while (this.again);
    } catch (e) {
      if (!this.last && !this.signal.aborted) fill(this.list, h('li', null, /** @type {Error} */ (e).message));
    } finally {
      this.busy = false;
    }
  }

  /** Whether there are older ones than those of a page. @param {any} page @param {number} most */
  more(page, most) {
    this.first = page.first;
    visible(this.older, page.first > 1 && (!this.query || page.sentences.length === most));
  }

  async back() {
    const page = await get(`${this.screen.path}/said?limit=500&before=${this.first}${this.query}`);
    this.list.append(...page.sentences.reverse().map(line));
    this.more(page, 500);
  }

  async verify() {
    say(this.chain, 'Verifying …', 'faint');
    try {
      const v = await get(this.screen.path + '/verify');
      say(this.chain, v.whole ? `The chain of ${some(v.events, 'event')} is whole.` : `The chain is not whole behind ${some(v.events, 'event')}: ${v.why}`, v.whole ? 'good' : 'bad');
    } catch (e) {
      say(this.chain, /** @type {Error} */ (e).message, 'bad');
    }
  }
}

/** @param {any} s */
function line(s) {
  return h('li.' + s.tone, {'data-seq': s.seq}, h('span.seq', null, s.seq), h('time', {datetime: s.at, title: s.at}, timeOfDay(s.at)), h('span.it', null, s.iteration || ''), h('code.ev', null, s.event), h('span', null, s.text));
}

class Gates {
  /** @param {any} screen */
  constructor(screen) {
    this.screen = screen;
    this.el = h('div');
    void this.news();
  }

  async news() {
    const all = await get(this.screen.path + '/iterations?last=1').catch(() => null);
    const last = all?.iterations.at(-1), r = this.screen.r;
    if (this.screen.inner.signal.aborted) return;
    const now = gates(r?.gates), asked = now.filter(([, , tone]) => tone !== 'off'), off = now.filter(([, , tone]) => tone === 'off');
    fill(this.el, now.length === 0 ? h('p.faint', null, 'No gate has been looked at yet.') : h('table.plainrows', null, h('thead', null, h('tr', null, h('th', null, 'Gate'), h('th', null, 'Verdict'), h('th', null, 'Evidence'))), h('tbody', null, asked.map(([name, verdict, tone]) => h('tr', null,
      h('td', null, h('span.dots', null, h('i.dot.' + tone)), ' ', name), h('td', null, verdict === 'true' ? 'given' : verdict === 'false' ? 'not given' : verdict),
      h('td', null, name === 'tests' && last ? tests(last.tests, this.screen) : '', ' ', h('a', {href: eventsOf(this.screen.id, {event: evidence[name] ?? 'gates_evaluated'})}, 'its events')))))),
      off.length ? h('p.faint', null, `Not asked for: ${off.map(([name]) => name).join(', ')}.`) : '',
      last?.why?.length ? [h('h2', null, 'What completion lacks'), h('ul.plain', null, last.why.map((/** @type {string} */ w) => h('li', null, w)))] : last?.missing?.length ? [h('h2', null, 'What completion lacks'), h('p', null, last.missing.join(', '))] : '');
  }
}

/** The events that a gate was judged by. @type {Record<string, string>} */
const evidence = {tests: 'tests_*', promise: 'promise_*', validation: 'validation_*', files: 'tree_*', 'fresh checkout': 'final_*', approval: 'approval_*'};

/** @param {any[]} runs @param {any} screen */
function tests(runs, screen) {
  const t = runs.at(-1);
  if (!t) return '';
  return [t.failed_command ? [h('code', null, t.failed_command), ', ', h('a', {href: eventsOf(screen.id, {event: 'tests_*'})}, `exit code ${t.exit_code}`)] : (t.commands ?? []).map((/** @type {string} */ c) => h('code', null, c, ' ')), ' ', h('button.quiet', {type: 'button', onclick: () => {
    screen.open('log');
    screen.view.pick('tests', screen.r.iteration);
  }}, 'output')];
}

class Diff {
  /** @param {any} screen */
  constructor(screen) {
    this.el = h('div', null, h('p.faint', null, 'Reading the differences …'));
    void get(screen.path + '/diff').then((text) => fill(this.el, text.trim() ? [h('p.faint', null, 'Against the tree before the first role.'), diffLines(text)] : h('p.faint', null, 'Nothing differs from the tree before the first role.')),
      (e) => fill(this.el, h('p.faint', null, e.message)));
  }
}

customElements.define('sl-loop', LoopScreen);
