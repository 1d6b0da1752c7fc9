import './chart.js';
import {get, world} from './client.js';
import {fill, h, Screen} from './dom.js';
import {base, ended, eventsOf, roleEnds, span} from './states.js';
import {calm, count, moment, money, some} from './time.js';

/** Name, length in hours, step. @type {Record<string, [string, number, string, number]>} */
const spans = {h: ['the last 6 hours', 6, '15m', .25], d: ['the last day', 24, '1h', 1], w: ['the last week', 168, '6h', 6], m: ['the last 30 days', 720, '24h', 24]};
/** @type {Record<string, string>} */
const kinds = {role: 'role', model: 'model', loop: 'loop', repo: 'repository'};

// Series that are drawn; the others are one together.
const most = 7;

class CostScreen extends Screen {
  sum = false;
  by = 'role';
  span = 'd';
  /** Whose cost: of one role or model, and of which time if not of all that is shown. @type {Record<string, string>} */ of = {};

  begin() {
    this.read();
    this.links = h('div.bar');
    this.box = h('div');
    this.append(h('h1', null, 'Cost'), this.links, this.box);
    void this.load();
  }

  moved() {
    const before = this.href(this.by, this.span, this.of);
    this.read();
    if (before !== this.href(this.by, this.span, this.of)) void this.load();
  }

  /** Takes from the address what is to be shown. */
  read() {
    const q = new URLSearchParams(location.search), by = q.get('by') ?? '', span = q.get('span') ?? '';
    this.by = kinds[by] ? by : 'role';
    this.span = spans[span] ? span : 'd';
    this.of = Object.fromEntries(['role', 'model', 'from', 'to'].filter((k) => k === 'role' || k === 'model' ? q.get(k) : Date.parse(q.get(k) ?? '')).map((k) => [k, q.get(k) ?? '']));
  }

  /** @param {string} by @param {string} span @param {Record<string, string>} of */
  href(by, span, of) {
    return '/cost?' + new URLSearchParams(Object.entries({by, span, ...of}).filter(([, v]) => v));
  }

  /** Where the numbers of a row come from: events of a loop, or the loops of which there are such events. @param {string} name @param {Record<string, string>} [time] of the numbers, unless they are of all that is shown */
  source(name, time) {
    if (this.by === 'loop') return eventsOf(name, {event: roleEnds, ...this.of, ...time ?? this.shown});
    if (this.by === 'repo' && !time) return '/?q=' + encodeURIComponent(name);
    return this.href('loop', this.span, {...this.of, ...this.by === 'repo' ? {} : {[this.by]: name}, ...time});
  }

  async load() {
    const by = this.by, key = this.span, asked = this.href(by, key, this.of);
    const chip = (/** @type {string} */ b, /** @type {string} */ s, /** @type {string} */ name, /** @type {boolean} */ on) => h('a.chip', {href: this.href(b, s, s === key ? this.of : {...this.of, from: '', to: ''}), 'aria-current': on ? 'true' : null}, name);
    fill(this.links, h('div.chips', {role: 'group', 'aria-label': 'By'}, Object.entries(kinds).map(([b, name]) => chip(b, key, 'by ' + name, b === by))),
      h('div.chips', {role: 'group', 'aria-label': 'Time'}, Object.entries(spans).map(([s, [name]]) => chip(by, s, name, s === key))),
      this.of.from && h('a.chip', {href: this.href(by, key, {...this.of, from: '', to: ''}), 'aria-current': 'true', title: 'Show all of the time'}, `${moment(this.of.from)} to ${this.of.to ? moment(this.of.to) : 'now'} ×`),
      Object.entries(this.of).filter(([k]) => k === 'role' || k === 'model').map(([k, v]) => h('a.chip', {href: this.href(by, key, {...this.of, [k]: ''}), 'aria-current': 'true', title: 'Show the others too'}, `${k} ${v} ×`)),
      h('label', null, h('input', {type: 'checkbox', checked: this.sum, onchange: () => {
        this.sum = !this.sum;
        void this.load();
      }}), ' added up'), h('button', {type: 'button', onclick: () => this.csv()}, 'CSV'));
    const [, hours, step, each] = spans[key];
    const ms = each * 3600e3, to = Math.ceil((Date.parse(this.of.to) || Date.now()) / ms) * ms, from = Math.max(to - 1000 * ms, Math.floor((Date.parse(this.of.from) || to - hours * 3600e3) / ms) * ms);
    try {
      const c = await get('/api/v1/cost?' + new URLSearchParams({by, step, ...this.of, ...span(from, to)}));
      if (!this.alive || asked !== this.href(this.by, this.span, this.of)) return;
      this.data = c;
      this.shown = span(from, to);
      this.draw(c, from, to, ms);
    } catch (e) {
      if (this.alive) fill(this.box, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }

  /** What a point of the chart was made of. @param {any} series none: all of them @param {Record<string, string>} time */
  leads(series, time) {
    return series ? this.source(series.name, time) : this.href('loop', this.span, {...this.of, ...time});
  }

  /** @param {string} n */
  named(n) {
    if (this.by === 'loop') return world.rows.get(n)?.loop ?? n;
    return n === '' ? 'not told' : this.by === 'repo' ? base(n) : n;
  }

  /** @param {any} c @param {number} from @param {number} to @param {number} step */
  draw(c, from, to, step) {
    const times = Array.from({length: Math.round((to - from) / step)}, (_, i) => from + i * step);
    const label = (/** @type {number} */ t) => {
      const d = new Date(t);
      return step >= 24 * 3600e3 ? `${d.getMonth() + 1}-${d.getDate()}` : (step >= 6 * 3600e3 ? `${d.getMonth() + 1}-${d.getDate()} ` : '') + `${String(d.getHours()).padStart(2, '0')}:${String(d.getMinutes()).padStart(2, '0')}`;
    };
    const line = (/** @type {any} */ s) => {
      const at = new Map(s.points.map((/** @type {any} */ p) => [Date.parse(p.at), p]));
      const known = times.map((t) => at.has(t) ? at.get(t).cost_usd.known : 0);
      return {name: this.named(s.name), values: known, lower: times.map((t) => !!at.get(t)?.cost_usd.unknown_runs)};
    };
    const series = c.series.slice(0, most).map(line), rest = c.series.slice(most).map(line);
    if (rest.length) series.push({name: `${rest.length} more`, values: times.map((_, i) => rest.reduce((/** @type {number} */ t, /** @type {any} */ x) => t + (x.values[i] ?? 0), 0)), lower: times.map((_, i) => rest.some((/** @type {any} */ x) => x.lower[i] || x.values[i] === null))});
    if (this.sum) for (const x of series) {
      let t = 0, lower = false;
      x.values = x.values.map((/** @type {number|null} */ v) => t += v ?? 0);
      x.lower = x.lower.map((/** @type {boolean} */ l) => lower ||= l);
    }
    const all = (/** @type {any} */ says) => h('a', {href: this.href('loop', this.span, this.of)}, says);
    const total = c.total.cost_usd, hours = (to - from) / 3600e3;
    const chart = /** @type {any} */ (document.createElement('sl-chart'));
    fill(this.box, h('dl.wide', null, h('dt', null, 'Cost'), h('dd', null, all(h('b', null, total.unknown_runs && total.known !== null ? '≥ ' : '', money(total.known)))), h('dt', null, 'Not known'), h('dd', null, total.unknown_runs ? all(`of ${some(total.unknown_runs, 'run')} of ${c.total.runs}`) : 'nothing'),
      h('dt', null, 'Burn rate'), h('dd', null, total.known === null ? 'unknown' : all(`${total.unknown_runs ? '≥ ' : ''}${money(total.known / hours)} an hour`)), h('dt', null, 'Tokens'), h('dd', null, all((c.total.tokens.unknown_runs && c.total.tokens.known !== null ? '≥ ' : '') + count(c.total.tokens.known)))),
      chart,
      c.unread?.length ? h('p.ask', null, `The journals of ${some(c.unread.length, 'loop')} could not be read; what they cost is missing here.`) : '',
      h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': 'Cost by name'}, h('table.plainrows', null, h('thead', null, h('tr', null, h('th', null, kinds[this.by]), h('th.num', null, 'Runs'), h('th.num', null, 'Cost'), h('th.num', null, 'Not known of'), h('th.num', null, 'Tokens'), h('th.num', null, 'Cost of a run'), this.by === 'loop' ? h('th', null, 'At this rate') : '')),
        h('tbody', null, c.series.map((/** @type {any} */ s) => {
          const priced = s.total.runs - s.total.cost_usd.unknown_runs;
          const leads = (/** @type {any} */ says) => h('td.num', null, h('a', {href: this.source(s.name)}, says)), least = (/** @type {any} */ x) => x.unknown_runs && x.known !== null ? '≥ ' : '';
          return h('tr', null, h('td.name', null, h('a', {href: this.source(s.name)}, this.named(s.name))), leads(String(s.total.runs)), leads(least(s.total.cost_usd) + money(s.total.cost_usd.known)),
            leads(s.total.cost_usd.unknown_runs ? some(s.total.cost_usd.unknown_runs, 'run') : '–'), leads(least(s.total.tokens) + count(s.total.tokens.known)), leads(priced > 0 && s.total.cost_usd.known !== null ? money(s.total.cost_usd.known / priced) : 'unknown'), this.by === 'loop' ? h('td.one', null, h('a', {href: '/loops/' + encodeURIComponent(s.name)}, forecast(world.rows.get(s.name), s.total.cost_usd, hours))) : '');
        })))));
    chart.data = {kind: this.sum ? 'areas' : 'bars', title: `Cost by ${kinds[this.by]}`, x: times.map(label), series, say: (/** @type {number|null} */ v) => money(v),
      source: (/** @type {number} */ i, /** @type {number} */ k) => this.leads(c.series[k < most ? k : -1], span(times[this.sum ? 0 : i], times[i] + step))};
  }

  /** Gives what is shown as a file of comma-separated values. What is not known is empty. */
  csv() {
    const cell = (/** @type {any} */ v) => v === null || v === undefined ? '' : typeof v === 'number' ? String(v) : '"' + String(v).replaceAll('"', '""').replace(/^([=+\-@\t\r])/, "'$1") + '"';
    const rows = [['name', 'from', 'runs', 'cost_usd', 'runs_without_cost', 'tokens']];
    for (const s of this.data?.series ?? []) for (const p of s.points) rows.push([s.name, p.at, p.runs, p.cost_usd.known, p.cost_usd.unknown_runs, p.tokens.known]);
    const url = URL.createObjectURL(new Blob([rows.map((r) => r.map(cell).join(',')).join('\r\n') + '\r\n'], {type: 'text/csv'}));
    h('a', {href: url, download: `superloop-cost-${this.by}.csv`}).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}

/**
 * When the budget of a loop is spent, if it goes on as in the time that is shown. The budget is told while a role runs.
 * @param {any} r @param {{known: number|null, unknown_runs: number}} cost @param {number} hours
 */
function forecast(r, cost, hours) {
  if (!r) return '–';
  if (!r.budget_usd) return h('span.faint', null, ended(r) ? 'it has ended' : 'no budget is told');
  const left = Math.max(0, r.budget_usd - (r.cost_usd ?? 0)), rate = (cost.known ?? 0) / hours;
  if (left === 0) return h('span.bad', null, `${money(r.budget_usd)} are spent`);
  if (cost.unknown_runs || r.unknown_cost) return h('span.faint', null, `not known: ${some(r.unknown_cost || cost.unknown_runs, 'run')} without a cost; ${money(left)} left at most`);
  return rate === 0 ? h('span.faint', null, `${money(left)} left`) : [h('b', null, `${calm(left / rate * 3600e3)}`), h('span.faint', null, ` until ${money(r.budget_usd)} are spent`)];
}

customElements.define('sl-cost', CostScreen);
