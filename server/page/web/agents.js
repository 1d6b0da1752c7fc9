import {get} from './client.js';
import {fill, h, Screen} from './dom.js';
import {base} from './states.js';
import {ago, count, money, until} from './time.js';

class AgentsScreen extends Screen {
  begin() {
    this.box = h('div', null, h('p.faint', null, 'Reading …'));
    this.append(h('h1', null, 'Agents'), this.box);
    void this.load();
  }

  async load() {
    try {
      const all = await get('/api/v1/runners?limit=200');
      if (!this.alive) return;
      fill(this.box, all.repos.length === 0 && h('p.faint', null, 'The daemon knows no repository.'), all.repos.map(repo));
    } catch (e) {
      if (this.alive) fill(this.box, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }
}

/** @param {any} r */
function repo(r) {
  const list = r.known?.runners ?? [];
  return h('section', null, h('h2', {title: r.repo}, base(r.repo)), r.error ? h('p.bad', null, r.error) : list.length === 0 ? h('p.faint', null, 'No runner has been used yet.') :
    h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': 'Runners of ' + base(r.repo)}, h('table.plainrows', null, h('thead', null, h('tr', null, h('th', null, 'Runner'), h('th', null, 'Model'), h('th', null, 'Account'), h('th', null, 'State'), h('th.num', null, 'Runs'), h('th.num', null, 'Success, recent'), h('th.num', null, 'Failures in a row'), h('th.num', null, 'A success costs'), h('th', null, 'Last success'), h('th', null, 'Roles'))),
      h('tbody', null, list.map((/** @type {any} */ x) => row(x))))));
}

/** @param {any} x */
function row(x) {
  const state = x.limit ? [h('span.st.ask', null, 'limited'), ' ', until(x.limit.until, 'over')] : x.state === 'fit' ? h('span.st.good', null, 'fit') : x.state === 'probation' ? h('span.st.ask', null, 'on probation') :
    [h('span.st.bad', null, x.state === 'mend' ? 'to be mended' : 'unfit'), x.until && x.state !== 'mend' ? [' ', until(x.until)] : ''];
  const why = x.limit?.text || x.why;
  return h('tr', null, h('td', null, h('b', null, x.runner), x.configured ? '' : h('span.tag', null, 'not configured')), h('td', null, x.model || h('span.faint', {title: 'the one that the program chooses'}, '–')), h('td', null, [x.provider, x.account].filter(Boolean).join(' / ') || '–'), h('td.state2', null, state, why ? h('div.faint', null, why) : ''),
    h('td.num', null, x.runs), h('td.num', null, x.success_rate === null || x.success_rate === undefined ? '–' : `${Math.round(100 * x.success_rate)} % of ${x.recent_runs}`), h('td.num', null, x.failures_in_row || '–'),
    h('td.num', null, x.cost_per_success_usd === null || x.cost_per_success_usd === undefined ? 'unknown' : (x.unpriced_runs ? '≥ ' : '') + money(x.cost_per_success_usd)), h('td', null, x.last_success ? [ago(x.last_success), ' ago'] : '–'),
    h('td', null, (x.by_role ?? []).map((/** @type {any} */ d) => h('span.tag', {title: `${count(d.recent_runs)} recent runs`}, `${d.role} ${Math.round(100 * d.success_rate)} %`))));
}

customElements.define('sl-agents', AgentsScreen);
