import {change, get, on, world} from './client.js';
import {dialog, tell} from './dialogs.js';
import {fill, h, Screen} from './dom.js';
import {verdicts} from './policy.js';
import {base, eventsOf, where} from './states.js';
import {output} from './text.js';
import {duration, moment, some} from './time.js';

class RemediationScreen extends Screen {
  begin() {
    this.loops = h('div');
    this.chains = h('div');
    this.append(h('h1', null, 'Remediation'), this.loops, this.chains);
    this.loaded = false;
    const once = () => {
      if (this.loaded || !world.told) return;
      this.loaded = true;
      void this.load();
    };
    on('state', once, this.life.signal);
    once();
  }

  async load() {
    fill(this.loops, h('p.faint', null, 'Reading the recoveries of each loop …'));
    /** @type {any[]} */
    const found = [];
    const rows = [...world.rows.values()].filter((r) => r.run_id);
    // A few at a time: each answer reads a journal.
    await Promise.all(Array.from({length: 4}, async () => {
      for (let r = rows.pop(); r && this.alive; r = rows.pop()) {
        const row = r;
        const all = await get(`/api/v1/loops/${encodeURIComponent(row.id)}/recoveries?limit=200`).catch(() => ({recoveries: []}));
        found.push(...all.recoveries.map((/** @type {any} */ x) => ({...x, row})));
      }
    }));
    if (!this.alive) return;
    found.sort((a, b) => a.at < b.at ? 1 : -1);
    fill(this.loops, h('section', null, h('h2', null, 'What was proposed, and what became of it'), found.length === 0 ? h('p.faint', null, 'Nothing was proposed in the last runs.') :
      h('ol.recoveries', null, found.slice(0, 300).map((x) => this.recovery(x)))));
    const plans = await get('/api/v1/chains?limit=200').catch(() => null);
    if (!this.alive || !plans) return;
    /** @type {any[]} */
    const list = plans.repos.flatMap((/** @type {any} */ r) => (r.known?.chains ?? []).map((/** @type {any} */ c) => ({...c, repo: r.repo})));
    fill(this.chains, h('section', null, h('h2', null, 'Plans of superloop fix and of loops'), list.length === 0 ? h('p.faint', null, 'There is none.') : h('ol.recoveries', null, list.slice(0, 100).map((c) => this.plan(c)))));
  }

  /** @param {any} x */
  recovery(x) {
    const tone = {verified: 'good', harmful: 'bad', failed: 'bad', ineffective: 'bad', denied: 'faint'}[/** @type {string} */ (x.outcome)] ?? 'wait';
    const kept = x.kept.at(-1), q = [...world.questions.values()].find((y) => y.loop_id === x.row.id && y.command?.text === x.command);
    return h('li', null, h('div.line', null, q && x.outcome === 'not run' ? h('a', {href: '/questions/' + encodeURIComponent(q.id)}, h('span.st.ask', null, 'asks you')) : h('span.st.' + tone, null, x.outcome), h('code', null, x.command), h('a', {href: '/loops/' + encodeURIComponent(x.row.id)}, x.row.loop), h('span.faint', null, where(x.row), ' · ', h('a', {href: eventsOf(x.row.id, {event: 'recovery_*', from: x.at})}, `iteration ${x.iteration} · ${moment(x.at).slice(5, 16)}${x.duration_ms ? ' · took ' + duration(x.duration_ms) : ''}`)),
      kept ? h('button.quiet', {type: 'button', onclick: () => this.undo(x)}, 'Undo') : ''),
      h('details', null, h('summary', null, 'why'), h('dl', null, [['Cause', x.root_cause], ['Decided', [verdicts[x.verdict]?.[0] ?? x.verdict, x.reason].filter(Boolean).join(': ')], ['By', x.by === 'rule' ? 'the policy' : x.by], ['Proposed by', x.source], ['About', x.category]].filter(([, v]) => v).map(([k, v]) => [h('dt', null, k), h('dd', null, v)])),
        x.evidence?.length ? h('ul.evidence', null, x.evidence.map((/** @type {string} */ e) => h('li', null, h('code', null, e)))) : ''));
  }

  /** @param {any} x */
  async undo(x) {
    if (await dialog('Put back what it has overwritten?', [h('p', null, 'Recovery ', x.n, ' of ', x.row.loop, ': ', h('code', null, x.command)), h('p.faint', null, 'Files that have changed since stay as they are. It asks for a confirmation on a terminal.')], [{value: 'yes', label: ['Undo: ', h('code', null, x.command)], strong: true}]) !== 'yes') return;
    try {
      const u = await change('POST', `/api/v1/loops/${encodeURIComponent(x.row.id)}/recoveries/${x.n}/undo`, {});
      tell([u.complete ? 'It is put back.' : 'It is put back in part: what has changed since stays. superloop undo says more.'], !u.complete);
    } catch (e) {
      tell([/** @type {Error} */ (e).message], true);
    }
  }

  /** @param {any} c */
  plan(c) {
    const more = h('div');
    return h('li', null, h('div.line', null, h('span.st.' + (c.status === 'done' ? 'good' : 'wait'), null, c.status), h('code', null, c.command), h('span.faint', null, `${c.loop_id ? c.loop_id + ' · ' : ''}${base(c.repo)}`)),
      c.why || c.error ? h('p.faint', null, c.why || c.error) : '',
      h('details', {ontoggle: async () => {
        if (more.firstChild) return;
        const full = await get(`/api/v1/chains/${encodeURIComponent(c.chain_id)}?repo=${encodeURIComponent(c.repo)}`).catch((/** @type {Error} */ e) => ({message: e.message}));
        fill(more, full.message ?? [h('ol.crumbs', null, (full.breadcrumbs ?? []).map((/** @type {any} */ b) => h('li', null, h('code', null, b.label), h('span.tag', null, b.status)))),
          (full.escalation_stack ?? []).map((/** @type {any} */ l) => h('div', null, h('h3', null, `Level ${l.depth}: ${l.label}`), ways(l.options ?? []))), full.stderr ? h('pre.out', {tabindex: '0'}, output(full.stderr)) : '',
          full.errors?.length ? [h('h3', null, 'What did not work'), h('ul.evidence', null, full.errors.map((/** @type {any} */ e) => h('li', null, `level ${e.depth}: `, h('code', null, e.command || e.option), ' ', e.text)))] : '']);
      }}, h('summary', null, `${some(c.attempts, 'command')} run until ${moment(c.updated_at).slice(5, 16)}: levels and options`), more));
  }
}

/** @param {any[]} all */
function ways(all) {
  return h('ul.options', null, all.map((o) => h('li.' + o.availability, null, h('b', null, o.label || o.id), h('span.tag.' + o.availability, null, o.availability), o.tried ? h('span.tag', null, 'tried: ' + o.tried) : '', o.command ? h('code.block', null, o.command) : '', o.withheld ? h('p.faint', null, 'withheld: ', o.withheld) : '')));
}

customElements.define('sl-remediation', RemediationScreen);
