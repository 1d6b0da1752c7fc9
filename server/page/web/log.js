import {get, world} from './client.js';
import {fill, h, say, visible} from './dom.js';
import {output} from './text.js';
import {bytes, count, duration, money, timeOfDay} from './time.js';

// How many items of a log stay on the page. A log of gigabytes costs no more than this.
const most = 2000;

// How many bytes of a log are shown as it was recorded: its end.
const mostRaw = 400_000;

/** What an agent does, one line for each thing, while it does it; or what it was told, and what it left. */
export class LogView {
  choicesKey = '';
  now = '';

  /** @param {any} screen @param {boolean} told whether it shows the prompt */
  constructor(screen, told) {
    this.screen = screen;
    this.told = told;
    this.signal = screen.inner.signal;
    this.choice = h('select', {'aria-label': told ? 'Whose prompt' : 'Whose log', onchange: () => {
      const [role, n] = this.choice.value.split(' ');
      this.pick(role, Number(n));
    }});
    this.raw = h('input', {type: 'checkbox', onchange: () => this.begin()});
    this.about = h('span.faint');
    this.list = h('ol.items', {'aria-label': 'What the agent does'});
    this.end = h('div');
    this.el = h('div', null, h('div.bar', null, this.choice, !told && h('label', null, this.raw, ' as it was recorded'), this.about), this.list, this.end);
    this.role = '';
    this.n = 0;
    this.moved(screen.r);
    this.timer = setInterval(() => {
      if (!document.hidden) void this.news();
    }, 1000);
    this.signal.addEventListener('abort', () => clearInterval(this.timer));
    void this.choices();
  }

  /** The loop does something else. @param {any} r */
  moved(r) {
    if (!r || this.picked && !(r.role && r.role === this.role)) {
      void this.choices();
      return;
    }
    if (r.role && r.iteration) {
      this.role = r.role;
      this.n = r.iteration;
      this.begin();
    }
    void this.choices();
  }

  /** @param {string} role @param {number} n */
  pick(role, n) {
    this.picked = true;
    this.role = role;
    this.n = n;
    this.begin();
    void this.choices();
  }

  async choices() {
    const all = await get(this.screen.path + '/iterations?last=80').catch(() => null);
    if (!all || this.signal.aborted) return;
    /** @type {[string, string][]} */
    const list = [];
    for (const it of all.iterations.filter((/** @type {any} */ x) => x.roles.length).slice(-40).reverse()) {
      const roles = new Set(it.roles.map((/** @type {any} */ x) => x.role));
      if (!this.told && it.tests.length && it === all.iterations.at(-1)) roles.add('tests');
      for (const role of [...roles].reverse()) list.push([`${role} ${it.n}`, `iteration ${it.n}, ${role}`]);
    }
    if (!this.role && list.length) {
      const [role, n] = (list.find(([v]) => !v.startsWith('tests ')) ?? list[0])[0].split(' ');
      this.role = role;
      this.n = Number(n);
      this.begin();
    }
    const now = `${this.role} ${this.n}`;
    if (this.role && !list.some(([v]) => v === now)) list.unshift([now, `iteration ${this.n}, ${this.role}`]);
    const key = JSON.stringify(list) + now;
    if (key === this.choicesKey) return;
    this.choicesKey = key;
    fill(this.choice, list.map(([v, name]) => h('option', {value: v, selected: v === now}, name)));
    if (list.length === 0) say(this.about, 'No role has run yet.');
  }

  begin() {
    this.after = 0;
    this.file = '';
    this.list.replaceChildren();
    fill(this.end);
    visible(this.list, !this.raw.checked && !this.told);
    if (this.told) void this.prompt();
    else if (this.raw.checked) void this.recorded();
    else void this.news();
  }

  get path() {
    return `${this.screen.path}/logs/${encodeURIComponent(this.role)}/${this.n}`;
  }

  /** What the agent was told, and what it left. */
  async prompt() {
    const role = this.role, n = this.n;
    const t = await get(`${this.screen.path}/prompts/${encodeURIComponent(role)}/${n}`).catch((e) => e);
    if (this.signal.aborted || role !== this.role || n !== this.n) return;
    if (t instanceof Error) {
      say(this.about, t.message);
      return;
    }
    say(this.about, `${t.file}, ${bytes(new TextEncoder().encode(t.prompt).length)}`);
    const piece = (/** @type {string} */ title, /** @type {string|null|undefined} */ text, /** @type {string} */ none) => [h('h2', null, title), text ? h('pre.out', {tabindex: '0', role: 'region', 'aria-label': title}, text) : h('p.faint', null, none)];
    fill(this.end, piece('Its prompt', t.prompt, 'It is empty.'), piece('Its last words', t.message, 'It left none.'),
      t.report ? piece(`Its report, ${t.report.file}`, t.report.text, t.report.status === 'fresh' ? 'A later iteration has written another one.' : `It left none: the file was ${t.report.status} when the role ended.`) : '');
  }

  /** The log as the agent's program has written it. */
  async recorded() {
    const role = this.role;
    // The end of it is enough to look at: a log of gigabytes costs the tab no more than this.
    /** @type {string} */
    let text = await get(this.path, {Range: `bytes=-${mostRaw}`}).catch((e) => e.message);
    if (this.signal.aborted || role !== this.role || !this.raw.checked) return;
    const cut = text.length > mostRaw / 2 && new TextEncoder().encode(text).length >= mostRaw;
    if (cut) text = text.slice(text.indexOf('\n') + 1);
    fill(this.end, h('pre.out.tall', {tabindex: '0', 'aria-label': 'The log'}, output(text)));
    say(this.about, cut ? `the last ${bytes(text.length)} of it` : bytes(text.length));
  }

  async news() {
    if (this.told) {
      const r = this.screen.r, now = JSON.stringify([r?.role, r?.iteration, r?.step, r?.status]);
      if (this.role && now !== this.now) void this.prompt();
      this.now = now;
      return;
    }
    if (!this.role || this.raw.checked || this.busy || world.state !== 'live') return;
    this.busy = true;
    const role = this.role, n = this.n;
    try {
      for (;;) {
        const page = await get(`${this.path}/items?after=${this.after}`);
        if (this.signal.aborted || role !== this.role || n !== this.n) return;
        if (page.file !== this.file) {
          this.list.replaceChildren();
          if (this.file && page.from) { // another attempt: from its beginning
            this.file = page.file;
            this.after = 0;
            continue;
          }
          this.file = page.file;
        }
        this.add(page.items);
        const more = page.after < page.size && page.after > this.after;
        this.after = page.after;
        say(this.about, `${page.file}, ${bytes(page.size)}`);
        if (!more) return;
      }
    } catch (e) {
      if (!this.signal.aborted) say(this.about, /** @type {Error} */ (e).message);
    } finally {
      this.busy = false;
      if (role !== this.role || n !== this.n) void this.news();
    }
  }

  /** @param {any[]} items */
  add(items) {
    if (items.length === 0) return;
    const box = document.scrollingElement ?? document.body;
    const follow = box.scrollHeight - box.scrollTop - box.clientHeight < 60 && this.list.children.length > 0;
    const part = document.createDocumentFragment();
    for (const i of items.slice(-most)) part.append(item(i));
    this.list.append(part);
    while (this.list.children.length > most) this.list.firstElementChild?.remove();
    if (follow) box.scrollTop = box.scrollHeight;
  }
}

/** @type {Record<string, string>} */
const signs = {said: '', thought: '~', call: '›', result: '', note: '*', end: '=', plain: ''};

/** @param {any} i */
function item(i) {
  const sign = i.kind === 'result' ? i.failed ? 'failed' : 'ok' : signs[i.kind] ?? '';
  const more = [i.took_ms ? duration(i.took_ms) : '', i.lines > 1 ? `${i.lines} lines` : '', i.kind === 'end' ? [i.tokens === null ? '' : `${count(i.tokens)} tokens`, i.cost_usd === null ? '' : money(i.cost_usd)].filter(Boolean).join(', ') : ''].filter(Boolean).join(', ');
  return h(`li.${i.kind}${i.failed ? '.failed' : ''}${i.sub ? '.sub' : ''}`, null, h('span.sign', null, sign), i.at ? h('time', {datetime: i.at, title: i.at}, timeOfDay(i.at)) : '', h('span.said', null, i.tool && i.kind === 'call' ? [h('b', null, i.tool), ' '] : '', i.text, more ? h('span.faint', null, '  ', more) : ''));
}
