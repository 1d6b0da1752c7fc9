import {get, on, world} from './client.js';
import {fill, h, Screen} from './dom.js';
import {base, eventsOf, roleEnds, where} from './states.js';
import {ago, moment, money, until} from './time.js';

class AgentsScreen extends Screen {
  asked = false;
  lacking = false;
  /** @type {any[]} */ repos = [];

  begin() {
    this.box = h('div', null, h('p.faint', null, 'Reading …'));
    this.handed = h('section');
    this.append(h('h1', null, 'Agents'), this.box, this.handed);
    // The rows may come after the runners.
    on('rows', () => this.lacking && this.draw(), this.life.signal);
    const once = () => {
      if (this.asked || !world.told) return;
      this.asked = true;
      void this.load();
      void this.handovers();
    };
    on('state', once, this.life.signal);
    once();
  }

  /** Where a role went to another runner, and why, in the last runs of all loops. */
  async handovers() {
    /** @type {any[]} */
    const found = [];
    const rows = [...world.rows.values()].filter((r) => r.run_id);
    // A few at a time: each answer reads a journal.
    await Promise.all(Array.from({length: 4}, async () => {
      for (let r = rows.pop(); r && this.alive; r = rows.pop()) {
        const row = r, page = await get(`/api/v1/loops/${encodeURIComponent(row.id)}/events?event=runner_reassigned&limit=1000`).catch(() => ({events: []}));
        found.push(...page.events.map((/** @type {any} */ e) => ({...e, row})));
      }
    }));
    if (!this.alive) return;
    found.sort((a, b) => a.timestamp < b.timestamp ? 1 : -1);
    fill(this.handed, h('h2', null, 'Handovers'), found.length === 0 ? h('p.faint', null, 'No role went to another runner.') :
      h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': 'Handovers'}, h('table.plainrows', null, h('thead', null, h('tr', null, ['When', 'Loop', 'Role', 'From', 'To', 'Why'].map((x) => h('th', null, x)))),
        h('tbody', null, found.slice(0, 200).map((e) => h('tr', null, h('td.one', null, h('a', {href: eventsOf(e.row.id, {event: 'runner_reassigned', from: e.timestamp})}, moment(e.timestamp))), h('td', {title: where(e.row)}, h('a', {href: eventsOf(e.row.id, {event: 'runner_reassigned'})}, e.row.loop)), h('td', null, e.role), h('td', null, e.from), h('td', null, h('b', null, e.to)),
          h('td', null, h('div.faint', null, e.error || e.reason))))))));
  }

  draw() {
    this.lacking = this.repos.some((r) => ![...world.rows.values()].some((x) => x.repo === r.repo));
    fill(this.box, this.repos.length === 0 ? h('p.faint', null, 'The daemon knows no repository.') : h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': 'Runners'},
      h('table.plainrows', null, h('thead', null, h('tr', null, h('th', null, 'Runner'), h('th', null, 'Model'), h('th', null, 'State'), h('th.num', null, 'Runs'), h('th.num', null, 'Success, recent'), h('th.num', null, 'Failures in a row'), h('th.num', null, 'A success costs'), h('th', null, 'Last success'), h('th', null, 'Roles'), h('th', null, 'Loops'))),
        this.repos.map(repo))));
  }

  async load() {
    try {
      const all = await get('/api/v1/runners?limit=200');
      if (!this.alive) return;
      this.repos = all.repos;
      this.draw();
    } catch (e) {
      if (this.alive) fill(this.box, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }
}

/** @param {any} r */
function repo(r) {
  const list = r.known?.runners ?? [], used = list.filter((/** @type {any} */ x) => x.runs), idle = list.filter((/** @type {any} */ x) => !x.runs);
  const says = r.error ? h('span.bad', null, r.error) : idle.length ? h('span.faint', null, 'no figures yet: ', idle.map((/** @type {any} */ x, /** @type {number} */ i) => [i ? ', ' : '', x.runner, x.model ? ` ${x.model}` : '', x.limit || x.state === 'fit' ? '' : [' (', state(x), ')']])) : '';
  return h('tbody', null, h('tr.group', null, h('th', {colspan: '10', scope: 'rowgroup', title: r.repo}, base(r.repo), ' ', says)), used.map((/** @type {any} */ x) => row(x, r.repo)));
}

/** Whether a runner can be used. @param {any} x */
function state(x) {
  return x.limit ? [h('span.st.ask', null, 'limited'), ' ', h('a', {href: '/?s=wait'}, until(x.limit.until, 'over'))] : x.state === 'fit' ? h('span.st.good', null, 'fit') : x.state === 'probation' ? h('span.st.ask', null, 'on probation') :
    [h('span.st.bad', null, x.state === 'mend' ? 'to be mended' : 'unfit'), x.until && x.state !== 'mend' ? [' ', until(x.until)] : ''];
}

/** @param {any} x @param {string} repo */
function row(x, repo) {
  // The figures are those of all loops of the repository: of one loop each leads to its events, of several to the loops.
  const all = [...world.rows.values()].filter((r) => r.repo === repo && r.run_id), used = all.filter((r) => x.uses?.some((/** @type {any} */ u) => u.loop_id === r.loop));
  const loops = used.length ? used : all;
  const of = {runner: x.runner, role: x.by_role?.length === 1 ? x.by_role[0].role : ''};
  const traced = (/** @type {any} */ says, /** @type {string} */ event = roleEnds) => h('a', {href: loops.length === 1 ? eventsOf(loops[0].id, {...of, event}) : '/?q=' + encodeURIComponent(repo)}, says);
  const why = x.limit?.text || x.why;
  return h('tr', null, h('td', null, h('b', null, x.runner), x.configured ? '' : h('span.tag', null, 'not configured'), h('div.faint', null, [x.provider, x.account].filter(Boolean).join(' / '))), h('td.one', null, x.model || h('span.faint', {title: 'the one that the program chooses'}, '–')), h('td.state2', null, state(x), why ? h('div.faint', null, why) : ''),
    h('td.num', null, traced(x.runs)), h('td.num', null, x.success_rate === null || x.success_rate === undefined ? '–' : traced(`${Math.round(100 * x.success_rate)} % of ${x.recent_runs}`)), h('td.num', null, x.failures_in_row ? traced(x.failures_in_row, 'role_[ft]*') : '–'),
    h('td.num', null, traced(x.cost_per_success_usd === null || x.cost_per_success_usd === undefined ? 'unknown' : (x.unpriced_runs ? '≥ ' : '') + money(x.cost_per_success_usd))), h('td.one', null, x.last_success ? traced([ago(x.last_success), ' ago'], 'role_end') : '–'),
    h('td', null, (x.by_role ?? []).map((/** @type {any} */ d) => h('div.one', null, traced(`${d.role} ${Math.round(100 * d.success_rate)} %`)))),
    h('td.names', null, loops.slice(0, 6).map((r, i) => [i ? ', ' : '', h('a', {href: eventsOf(r.id, {...of, event: roleEnds})}, r.loop)]), loops.length > 6 ? [', ', h('a', {href: '/?q=' + encodeURIComponent(repo)}, `and ${loops.length - 6} more`)] : ''));
}

customElements.define('sl-agents', AgentsScreen);
