import {get} from './client.js';
import {fill, h} from './dom.js';
import {eventsOf, roleEnds, span} from './states.js';
import {duration, money, timeOfDay} from './time.js';

/** The iterations of a loop with their roles: when each ran, how long, what came of it. */
export class Timeline {
  key = '';

  /** @param {any} screen */
  constructor(screen) {
    this.screen = screen;
    this.el = h('div', null, h('p.faint', null, 'Reading the iterations …'));
    void this.news();
  }

  async news() {
    const all = await get(this.screen.path + '/iterations?last=200&limit=200').catch((/** @type {Error} */ e) => e);
    if (this.screen.inner.signal.aborted) return;
    if (all instanceof Error) {
      fill(this.el, h('p.faint', null, all.message));
      return;
    }
    const key = JSON.stringify(all.iterations.at(-1) ?? null) + all.iterations.length;
    if (key === this.key) return;
    this.key = key;
    if (all.iterations.length === 0) {
      fill(this.el, h('p.faint', null, 'No iteration has begun.'));
      return;
    }
    fill(this.el, h('table.timeline', null,
      h('thead', null, h('tr', null, h('th.num', null, 'Iteration'), h('th', null, 'Began'), h('th.num', null, 'Took'), h('th.bars', null, 'Roles and tests, in time'), h('th', null, 'Tests'), h('th.num', null, 'Cost'))),
      h('tbody', null, all.iterations.reverse().map((/** @type {any} */ it) => this.row(it)))), all.iterations.at(-1).n > 1 ? h('p.faint', null, h('a', {href: '#events'}, 'Earlier iterations stand in the events.')) : '');
  }

  /** @param {any} it */
  row(it) {
    const from = Date.parse(it.from), to = Math.max(Date.parse(it.to), from + 1), last = it.tests.at(-1);
    const cost = it.cost_usd === null ? it.unpriced_runs ? 'unknown' : '–' : (it.unpriced_runs ? '≥ ' : '') + money(it.cost_usd);
    const events = (/** @type {any} */ says, /** @type {string} */ event = '') => h('a', {href: this.events(from, it.roles.some((/** @type {any} */ x) => !x.to) ? 0 : to, event)}, says);
    return h('tr', null, h('td.num', null, events(it.n)), h('td', null, events(h('time', {datetime: it.from}, timeOfDay(it.from)))), h('td.num', null, events(duration(to - from))),
      h('td.bars', null, h('ol', null, parts(it).map((x) => this.bar(x, it.n, from, to)))),
      h('td', null, last ? events(h('span.' + (last.status === 'ok' ? 'good' : last.status === 'failed' ? 'bad' : 'faint'), null, last.status || 'run'), 'tests_*') : '–'), h('td.num', null, cost === '–' ? cost : events(cost, roleEnds)));
  }

  /** The events of a time. @param {number} from @param {number} to its last moment; 0: until now @param {string} [event] */
  events(from, to, event = '') {
    return eventsOf(this.screen.id, {event, ...span(from, to + 1), ...to ? {} : {to: ''}});
  }

  /** @param {any} x a role or tests @param {number} n the iteration @param {number} from @param {number} to */
  bar(x, n, from, to) {
    const a = Date.parse(x.from), b = x.to ? Date.parse(x.to) : Date.now(), span = Math.max(to, b) - from;
    const title = `${x.role}${x.attempt > 1 ? ', attempt ' + x.attempt : ''}${x.runner ? ', ' + x.runner : ''}: ${x.outcome}${x.error ? ', ' + x.error : ''}`;
    const i = h('i'), track = h('a.track', {href: x.role === 'tests' ? this.events(a, x.to ? b + 1000 : 0, 'tests_*') : this.events(a, x.to ? b : 0), 'aria-label': `${title}. Its events`}, i);
    i.style.marginInlineStart = `${100 * (a - from) / span}%`;
    i.style.width = `${Math.max(0.6, 100 * (b - a) / span)}%`;
    return h('li.' + (x.outcome === 'open' ? 'run' : x.outcome === 'ok' ? 'ok' : 'bad'), {title}, h('button.quiet', {type: 'button', 'aria-label': `${title}; ${duration(b - a)}. Its log`, onclick: () => {
      this.screen.open('log');
      this.screen.view.pick(x.role, n);
    }}, h('span', null, x.role), h('span.faint', null, ' ', duration(b - a), x.outcome !== 'ok' && x.outcome !== 'open' ? ` · ${x.outcome}` : '')), track);
  }
}

/** The roles and tests of an iteration, in time. @param {any} it @returns {any[]} */
function parts(it) {
  return [...it.roles, ...it.tests.map((/** @type {any} */ t) => ({role: 'tests', runner: t.reason, from: t.at, to: t.status && new Date(Date.parse(t.at) + t.duration_ms).toISOString(), outcome: t.status === 'green' ? 'ok' : t.status || 'open', error: t.failed_command}))].sort((a, b) => a.from < b.from ? -1 : 1);
}
