import {world} from './client.js';
import {h, say, visible} from './dom.js';
import {brief, doing, dots, ended, eventsOf, goesOn, roleEnds, silent, spent, spentOn, status, where} from './states.js';
import {spark} from './chart.js';
import {ago, calm, clock, money, some, wait} from './time.js';

/** A row of the table of loops. It changes only what has changed. */
export class LoopRow {
  /** What it has cost in each hour of the last day. @type {{runs: number, usd: number, unknown: number}[]|undefined} */ day;

  /** @param {any} r @param {(on: boolean) => void} choose */
  constructor(r, choose) {
    const href = '/loops/' + encodeURIComponent(r.id);
    this.r = r;
    this.href = href;
    this.box = h('input', {type: 'checkbox', 'aria-label': `Choose ${r.loop}`, onchange: () => choose(this.box.checked)});
    this.name = h('a', {href, 'data-row': true}, r.loop);
    this.where = h('td.where', {title: r.repo});
    this.word = h('span');
    this.since = h('a.faint');
    this.iter = h('a', {href: href + '#timeline'});
    this.doing = h('span');
    this.elapsed = clock((now) => this.age(now), 'span', {class: 'faint'});
    this.what = h('a', null, this.doing, ' ', this.elapsed);
    this.gates = h('td.gates');
    this.line = h('td.spark');
    this.spent = h('a');
    this.el = h('tr', {'data-of': r.id}, h('td.check', null, this.box), h('td.name', null, this.name), this.where, h('td.status', null, this.word, ' ', this.since),
      h('td.num.iter', null, this.iter), h('td.doing', null, this.what), this.gates, this.line, h('td.num.spent', null, this.spent));
  }

  /** @param {boolean} on */
  check(on) {
    this.box.checked = on;
  }

  /** @param {number} now */
  age(now) {
    const r = this.r;
    if (status(r)[1] === 'wait' && goesOn(r)) return wait(goesOn(r), now);
    if (!r.step || ended(r) || status(r)[1] !== 'run') return '';
    const quiet = silent(r, now);
    return quiet ? `silent ${calm(quiet)}` : r.updated_at ? calm(now - Date.parse(r.updated_at)) : '';
  }

  /** @param {any} r @param {{runs: number, usd: number, unknown: number}[]|undefined} day */
  set(r, day) {
    if (day !== this.day) {
      this.day = day;
      const priced = day?.some((x) => x.usd > 0), runs = day?.reduce((n, x) => n + x.runs, 0) ?? 0, unknown = day?.reduce((n, x) => n + x.unknown, 0) ?? 0;
      const says = `${some(runs, 'run')} of roles in the last day${priced ? `, ${unknown ? '≥ ' : ''}${money(day?.reduce((n, x) => n + x.usd, 0))}` : ''}`;
      this.line.replaceChildren(...runs && day ? [h('a', {href: eventsOf(r.id, {event: roleEnds, from: new Date(Date.now() - 24 * 3600e3).toISOString()}), title: says}, spark(day.map((x) => priced ? x.usd : x.runs), says))] : []);
    }
    const was = this.was, q = world.questions.get(r.question);
    if (was === r && this.q === q) return;
    this.q = q;
    this.was = this.r = r;
    const [word, tone] = status(r);
    say(this.word, word, 'st ' + tone);
    say(this.where, where(r));
    if (was?.status_since !== r.status_since) {
      this.since.replaceChildren(r.status_since ? ago(r.status_since) : '');
      this.since.href = eventsOf(r.id, {from: r.status_since ?? ''});
      visible(this.since, !!r.status_since);
    }
    say(this.iter, r.iteration ? `${r.iteration}${r.max_iterations ? ' / ' + r.max_iterations : ''}` : '–');
    say(this.doing, tone === 'run' ? doing(r) : tone === 'ask' && q ? q.command?.text ?? brief(q) : tone === 'wait' && r.phase === 'queued' && r.ahead ? `behind ${r.ahead}` : tone === 'wait' && goesOn(r) ? r.limit?.provider ?? 'goes on' : ended(r) && r.status !== 'completed' ? r.detail || r.reason || '' : r.phase === 'failing' ? r.why ?? '' : '');
    say(this.elapsed, this.age(Date.now()));
    visible(this.what, this.what.textContent.trim() !== '');
    this.what.href = tone === 'ask' && r.question ? '/questions/' + encodeURIComponent(r.question) : ended(r) ? eventsOf(r.id, {}) : this.href + '#log';
    if (JSON.stringify(was?.gates) !== JSON.stringify(r.gates)) this.gates.replaceChildren(r.gates ? h('a', {href: this.href + '#gates'}, dots(r.gates)) : '');
    say(this.spent, r.run_id ? spent(r) : '–');
    this.spent.href = spentOn(r);
    if (r.unknown_cost) this.spent.title = `of ${r.unknown_cost} runs the cost is not known`;
  }
}
