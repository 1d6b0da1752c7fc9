import {change, get, on, world} from './client.js';
import {dialog, tell} from './dialogs.js';
import {arrange, fill, h, say, Screen, visible} from './dom.js';
import {LoopRow} from './rows.js';
import {asks, brief, ended, eventsOf, filters, machineOf, status, where} from './states.js';
import {ago, moment, some, until} from './time.js';

/** @param {string} id */
const questionOf = (id) => '/questions/' + encodeURIComponent(id);

// How many questions are shown before the table of loops.
const mostNeeds = 8;

const seenKey = 'superloop.seen';

class Overview extends Screen {
  /** @type {Map<string, any>} */ have = new Map();
  /** @type {Map<string, any>} */ asked = new Map();
  /** @type {Set<string>} */ chosen = new Set();
  filter = 'all';
  endsKey = '';
  needKey = '';
  limitsKey = '';
  chipsKey = '';
  bulkN = 0;
  asking = false;

  begin() {
    if (!localStorage.getItem(seenKey)) localStorage.setItem(seenKey, new Date().toISOString());
    const q = new URLSearchParams(location.search);
    this.filter = q.get('s') ?? 'all';
    this.words = h('input', {type: 'search', placeholder: 'Filter', 'aria-label': 'Only loops whose name, repository, branch, machine, label or role contains this', value: q.get('q') ?? '', oninput: () => this.search()});
    this.need = h('ol.needs');
    this.more = h('button.quiet', {type: 'button', onclick: () => {
      this.every = !this.every;
      this.draw();
    }});
    this.needHead = h('h2', null, 'Needs you');
    this.ends = h('div.ends');
    this.limits = h('div.limits');
    this.chips = h('div.chips', {role: 'group', 'aria-label': 'Only loops that'});
    this.bulk = h('div.bulk', {hidden: true, role: 'group', 'aria-label': 'With the chosen loops'});
    this.all = h('input', {type: 'checkbox', 'aria-label': 'Choose all loops that are shown', onchange: () => this.chooseAll()});
    this.body = h('tbody');
    this.empty = h('p.faint.empty');
    this.table = h('table.loops', null,
      h('thead', null, h('tr', null, h('th.check', null, this.all), h('th', null, 'Loop'), h('th', null, 'Repository'), h('th', null, 'Status'), h('th.num', null, 'Iteration'), h('th', null, 'Doing'), h('th', null, 'Gates'), h('th.spark', null, 'Last day'), h('th.num', null, 'Spent'))),
      this.body);
    this.append(h('h1.sr', null, 'Overview'),
      h('section', {'aria-label': 'Needs you'}, this.needHead, this.need, this.more),
      this.ends, this.limits,
      h('section', {'aria-label': 'Loops'}, h('div.bar', null, h('h2', null, 'Loops'), this.chips, this.words, this.bulk), this.table, this.empty));
    on('rows', () => this.draw(), this.life.signal);
    on('questions', () => this.draw(), this.life.signal);
    on('state', () => this.draw(), this.life.signal);
    const timer = setInterval(() => void this.spent(), 300_000);
    this.life.signal.addEventListener('abort', () => clearInterval(timer));
    this.draw();
  }

  /** What each loop has cost in each hour of the last day: for the lines of the rows. */
  async spent() {
    if (document.hidden && this.day) return;
    const hour = 3600e3, to = Math.ceil(Date.now() / hour) * hour, from = to - 24 * hour;
    const c = await get(`/api/v1/cost?by=loop&step=1h&from=${new Date(from).toISOString().replace(/\.\d+/, '')}`).catch(() => null);
    if (!c || !this.alive) return;
    this.day = new Map(c.series.map((/** @type {any} */ s) => {
      const hours = Array.from({length: 24}, () => ({runs: 0, usd: 0, unknown: 0}));
      for (const p of s.points) {
        const x = hours[Math.round((Date.parse(p.at) - from) / hour)];
        if (x) Object.assign(x, {runs: p.runs, usd: p.cost_usd.known ?? 0, unknown: p.cost_usd.unknown_runs});
      }
      return [s.name, hours];
    }));
    this.draw();
  }

  /** The address has changed, and the screen has not. */
  moved() {
    const q = new URLSearchParams(location.search);
    this.filter = q.get('s') ?? 'all';
    if (this.words.value !== (q.get('q') ?? '')) this.words.value = q.get('q') ?? '';
    this.draw();
  }

  search() {
    history.replaceState(null, '', this.href(this.filter));
    this.draw();
  }

  /** @param {string} filter */
  href(filter) {
    const q = new URLSearchParams();
    if (filter !== 'all') q.set('s', filter);
    if (this.words.value) q.set('q', this.words.value);
    return '/' + (q.size ? '?' + q : '');
  }

  draw() {
    if (!this.alive) return;
    if (world.told && !this.asking) {
      this.asking = true;
      void this.spent();
    }
    const rows = [...world.rows.values()];
    this.drawNeeds();
    this.drawEnds(rows);
    this.drawLimits(rows);
    const word = this.words.value.toLowerCase();
    const found = rows.filter((r) => !word || [r.loop, r.repo, r.branch, r.role, r.runner, machineOf(r), ...(r.labels ?? [])].some((s) => s?.toLowerCase().includes(word)));
    const is = filters.find(([key]) => key === this.filter)?.[2] ?? (() => true);
    this.drawChips(found);
    const list = found.filter(is).sort(before);
    arrange(this.body, this.have, list.map((r) => r.id), (id) => {
      const row = new LoopRow(world.rows.get(id), (on) => {
        if (on) this.chosen.add(id);
        else this.chosen.delete(id);
        this.drawBulk();
      });
      row.check(this.chosen.has(id));
      return {el: row.el, row};
    });
    for (const r of list) this.have.get(r.id).row.set(r, this.day?.get(r.id));
    for (const id of this.chosen) if (!world.rows.has(id)) this.chosen.delete(id);
    this.listed = list.map((r) => r.id);
    this.drawBulk();
    visible(this.table, list.length > 0);
    visible(this.empty, list.length === 0);
    if (list.length === 0) {
      say(this.empty, !world.told ? 'Reading the loops …' : rows.length ? 'No loop is like that.' : 'The daemon knows no loop. In a repository, type: superloop start --loop ID');
    }
  }

  drawNeeds() {
    const cost = (/** @type {any} */ q) => Date.parse(q.created_at);
    const list = [...world.questions.values()].sort((a, b) => cost(a) - cost(b));
    visible(this.needHead, list.length > 0);
    visible(this.need, list.length > 0);
    const shown = this.every ? list : list.slice(0, mostNeeds);
    visible(this.more, list.length > mostNeeds);
    say(this.more, this.every ? 'only the oldest' : `and ${list.length - shown.length} more`);
    const blocked = new Set(list.map((q) => q.loop_id)).size;
    const key = [list.length, blocked, list[0]?.created_at].join();
    if (key !== this.needKey) {
      this.needKey = key;
      fill(this.needHead, some(list.length, 'question') + (list.length === 1 ? ' waits' : ' wait') + ' for you', h('span.faint', null, ': ', h('a', {href: '/?s=ask'}, some(blocked, 'loop')), blocked === 1 ? ' stands' : ' stand', ' still, ', list[0] ? ['for ', h('a.ask', {href: questionOf(list[0].id)}, ago(list[0].created_at))] : '', blocked > 1 ? ' at the longest' : ''));
    }
    arrange(this.need, this.asked, shown.map((q) => [q.id, q.digest, list.filter((x) => alike(x, q)).length, world.rows.get(q.loop_id)?.hold?.until].join(' ')), (key) => {
      const q = world.questions.get(key.split(' ')[0]), r = world.rows.get(q.loop_id);
      const same = list.filter((x) => x.id !== q.id && alike(x, q)).length;
      const what = q.command ? h('code.cut', null, q.command.text) : h('span.cut.faint', null, q.failure?.label || q.question?.reason);
      return {row: null, el: h('li', {'data-of': q.id}, h('a', {href: questionOf(q.id), 'data-row': true},
        h('span.age', null, ago(q.created_at)), h('span.ask', {title: q.title}, brief(q), same ? h('span.tag', {title: 'as many loops ask the same; each is answered by itself'}, `${same + 1} loops`) : ''), h('span.who', null, q.question?.loop_id, r ? h('span.faint', null, ' ', where(r)) : ''), what,
        h('span.faint.exp', null, 'expires ', until(r?.hold?.until ?? q.expires_at))))};
    });
  }

  /** @param {any[]} rows */
  drawEnds(rows) {
    const seen = localStorage.getItem(seenKey) ?? '';
    const list = rows.filter((r) => ended(r) && (r.status_since ?? '') > seen).sort((a, b) => a.status_since < b.status_since ? 1 : -1);
    const key = list.map((r) => r.id + r.status_since).join() + seen;
    if (key === this.endsKey) return;
    this.endsKey = key;
    fill(this.ends, list.length > 0 && h('section.strip', {'aria-label': 'Ended since your last visit'},
      h('h2', null, 'Ended since ', h('span', {title: 'your last visit'}, moment(seen).slice(5, 16))),
      h('ul', null, list.slice(0, 12).map((r) => h('li', null, h('a', {href: '/loops/' + encodeURIComponent(r.id)}, r.loop), ' ', h('span.' + status(r)[1], null, status(r)[0]), ' ', h('a.faint', {href: eventsOf(r.id, {from: r.status_since})}, ago(r.status_since), ' ago'))),
        list.length > 12 && h('li', null, h('a', {href: '/?s=done'}, `and ${list.length - 12} more`))),
      h('button.quiet', {type: 'button', onclick: () => {
        localStorage.setItem(seenKey, new Date().toISOString());
        this.draw();
      }}, 'seen')));
  }

  /** @param {any[]} rows */
  drawLimits(rows) {
    /** @type {Map<string, any>} */
    const of = new Map();
    for (const r of rows) {
      if (!r.limit || r.status !== 'rate_limited') continue;
      const name = r.limit.provider + (r.limit.account ? ' / ' + r.limit.account : '');
      const x = of.get(name) ?? {until: r.limit.until, n: 0, text: r.limit.text};
      x.n++;
      if (r.limit.until < x.until) x.until = r.limit.until;
      of.set(name, x);
    }
    const key = JSON.stringify([...of]);
    if (key === this.limitsKey) return;
    this.limitsKey = key;
    fill(this.limits, of.size > 0 && h('section.strip', {'aria-label': 'Limits'}, h('h2', null, 'Limits'),
      h('ul', null, [...of].map(([name, x]) => h('li', {title: x.text}, name, ' ', h('a', {href: '/?s=wait'}, h('b', null, until(x.until, 'over')), ` · ${some(x.n, 'loop waits', 'loops wait')}`))))));
  }

  /** @param {any[]} rows */
  drawChips(rows) {
    const key = this.filter + this.words.value + filters.map(([, , is]) => rows.filter(is).length).join();
    if (key === this.chipsKey) return;
    this.chipsKey = key;
    const focused = this.chips.contains(document.activeElement) ? [...this.chips.children].indexOf(/** @type {any} */ (document.activeElement)) : -1;
    fill(this.chips, filters.map(([id, name, is]) => h('a.chip', {href: this.href(id), 'aria-current': id === this.filter ? 'true' : null}, name, ' ', h('span', null, rows.filter(is).length))));
    if (focused >= 0) /** @type {HTMLElement} */ (this.chips.children[focused]).focus();
  }

  chooseAll() {
    for (const id of this.listed ?? []) {
      this.have?.get(id).row.check(this.all.checked);
      if (this.all.checked) this.chosen?.add(id);
      else this.chosen?.delete(id);
    }
    this.drawBulk();
  }

  drawBulk() {
    const n = this.chosen?.size ?? 0;
    this.all.checked = n > 0 && this.listed?.every((id) => this.chosen?.has(id));
    this.all.indeterminate = n > 0 && !this.all.checked;
    visible(this.bulk, n > 0);
    if (n === this.bulkN) return;
    this.bulkN = n;
    if (n) {
      fill(this.bulk, h('b', null, `${n} chosen`), [['pause', 'Pause'], ['start', 'Resume'], ['cancel', 'Cancel']].map(([act, name]) => h('button', {type: 'button', onclick: () => this.act(act, name)}, name)));
    }
  }

  /** @param {string} act @param {string} name */
  async act(act, name) {
    const ids = [...this.chosen ?? []], rows = ids.map((id) => world.rows.get(id)).filter(Boolean);
    if (act === 'cancel') {
      const yes = await dialog(`Cancel ${some(rows.length, 'loop')}?`, [h('p', null, 'What they run is ended at once. Nothing is deleted; started again, they go on where they stood.'),
        h('ul.plain', null, rows.slice(0, 20).map((r) => h('li', null, h('b', null, r.loop), ' ', h('span.faint', null, where(r)))), rows.length > 20 && h('li', null, `and ${rows.length - 20} more`))],
      [{value: 'yes', label: `Cancel ${some(rows.length, 'loop')}`, strong: true}]);
      if (yes !== 'yes') return;
    }
    let done = 0;
    for (const r of rows) {
      try {
        await change('POST', `/api/v1/loops/${encodeURIComponent(r.id)}/${act}`, {});
        done++;
        this.have?.get(r.id)?.row.check(false);
        this.chosen?.delete(r.id);
      } catch (e) {
        tell([h('b', null, r.loop), `: ${/** @type {Error} */ (e).message}`], true);
      }
    }
    if (done) tell([`${name}: ${some(done, 'loop')}.`]);
    this.bulkN = -1;
    this.drawBulk();
  }
}

/** Whether two questions ask the same, of different loops. @param {any} a @param {any} b */
function alike(a, b) {
  return a.question?.type === b.question?.type && (a.command ? a.command.sha256 === b.command?.sha256 : !b.command && a.question?.reason === b.question?.reason);
}

/** What needs somebody first, then what works, then what waits, then what has ended, the newest first. @param {any} a @param {any} b */
function before(a, b) {
  const rank = (/** @type {any} */ r) => asks(r) ? 0 : ended(r) ? 4 : {bad: 1, run: 2, wait: 3}[status(r)[1]] ?? 3;
  return rank(a) - rank(b) || (ended(a) ? (a.status_since < b.status_since ? 1 : -1) : 0) || (a.loop < b.loop ? -1 : a.loop > b.loop ? 1 : a.id < b.id ? -1 : 1);
}

customElements.define('sl-overview', Overview);
