import {change, list, world} from './client.js';
import {fill, h, Screen} from './dom.js';
import {base, eventsOf} from './states.js';
import {command} from './text.js';
import {moment, some} from './time.js';

/** How a verdict is said, and its colour. @type {Record<string, [string, string]>} */
export const verdicts = {auto: ['It runs by itself', 'good'], human: ['A person is asked', 'ask'], deny: ['It is denied', 'bad'], none: ['Nobody judges it', 'faint'], unknown: ['Not known', 'faint']};

/** What it depends on, if a verdict is not known. @type {Record<string, string>} */
const lacks = {confined: 'whether there was a sandbox', loose: 'whether on_unknown allow was accepted', changed: 'whether what it reads had changed', confidence: 'how sure its proposer was',
  history: 'what the run would have done before', approval: 'whether its approval would have held', clock: 'the end of a cooldown', policy: 'a policy that is not kept'};

/** What really became of a command. @param {any} b */
function became(b) {
  return [b.answer ? `${b.by} said ${b.answer}` : b.asked ? 'a person was asked' : b.denied ? 'denied' : b.approved === 'auto' ? 'approved by the policy' : '', b.instead ? `instead of it: ${b.instead}` : '',
    b.exit_code !== undefined && b.ended === 'exited' ? `ran, exit code ${b.exit_code}` : b.ended ? `ran, ended: ${b.ended}` : b.runs ? 'was begun' : 'did not run',
    b.result ? `the tests say: ${b.result}` : '', b.undone ? 'undone later' : '', b.again ? 'judged again later' : ''].filter(Boolean).join('; ');
}

class PolicyScreen extends Screen {
  begin() {
    this.repo = h('select', {'aria-label': 'Repository', onchange: () => this.turn()});
    this.text = h('textarea', {rows: 2, spellcheck: 'false', 'aria-label': 'A command', placeholder: 'rm -rf node_modules && npm ci'});
    this.said = h('div', {'aria-live': 'polite'});
    this.findings = h('div');
    this.days = h('select', {'aria-label': 'Time', onchange: () => this.turn()}, [7, 30, 90, 365].map((n) => h('option', {value: String(n), selected: n === 30}, `${n} days`)));
    this.candidate = h('textarea.candidate', {rows: 10, spellcheck: 'false', 'aria-label': 'Another policy', placeholder: '{"auto_approve": ["npm ci"], "on_unknown": "escalate"}'});
    this.hits = h('div');
    this.others = h('div', {'aria-live': 'polite'});
    this.settings = '';
    this.append(h('h1', null, 'Policy'),
      h('form.bar', {onsubmit: (/** @type {Event} */ e) => {
        e.preventDefault();
        void this.check();
      }}, h('label', null, h('span.faint', null, 'Repository '), this.repo)),
      h('section', null, h('h2', null, 'What would the policy say of a command?'), h('p.faint', null, 'It is judged, and not run.'),
        h('form.checkform', {onsubmit: (/** @type {Event} */ e) => {
          e.preventDefault();
          void this.check();
        }}, this.text, h('button', null, 'Judge it')), this.said),
      h('section', null, h('h2', null, 'What is odd in it'), this.findings),
      h('section', null, h('h2', null, 'What it decided, and what another one would have'),
        h('p.faint', null, 'Past commands are judged again. Nothing is executed.'), h('div.bar', null, h('label', null, h('span.faint', null, 'Decisions of the last '), this.days)),
        h('div.beside', null, h('div', null, h('h3', null, 'The policy in force'), this.hits),
          h('div', null, h('h3', null, 'Another policy'), h('form', {onsubmit: (/** @type {Event} */ e) => {
            e.preventDefault();
            void this.compare();
          }}, this.candidate, h('div.bar', null, h('button', null, 'Judge the past'), h('button', {type: 'button', onclick: () => { this.candidate.value = this.settings; }}, 'Begin with the one in force'))), this.others))));
    void this.load();
  }

  async load() {
    try {
      const all = await list('/api/v1/repos', 'repos');
      if (!this.alive) return;
      const asks = [...world.questions.values()].map((q) => q.question?.type !== 'tool_permission' && q.command && world.rows.get(q.loop_id)?.repo);
      fill(this.repo, all.filter((r) => !r.gone).map((r) => h('option', {value: r.repo, selected: r.repo === asks.find(Boolean)}, `${base(r.repo)} (${r.repo})`)));
      if (this.repo.value) this.turn();
      else fill(this.findings, h('p.faint', null, 'The daemon knows no repository.'));
    } catch (e) {
      if (this.alive) fill(this.findings, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }

  async check() {
    if (!this.text.value || !this.repo.value) return;
    try {
      const v = await change('POST', '/api/v1/policy/check', {repo: this.repo.value, command: this.text.value});
      if (!this.alive) return;
      const word = verdicts[v.verdict] ?? [v.verdict, 'bad'];
      fill(this.said, h('div.verdict', null, h('p', null, h('b.' + word[1], null, word[0]), v.rule ? h('span.tag', null, v.rule) : ''), h('p', null, v.reason), h('pre.command', null, command(v.display ?? '')),
        h('dl', null, v.entry_text && [h('dt', null, 'Entry'), h('dd', null, h('code', null, v.entry_text))], v.pattern_text && [h('dt', null, 'Pattern'), h('dd', null, h('code', null, v.pattern_text))], v.part && [h('dt', null, 'Part'), h('dd', null, h('code', null, v.part))],
          v.nearest && [h('dt', null, 'Nearest entry'), h('dd', null, h('code', null, v.nearest.text))], v.file && [h('dt', null, 'Stands in'), h('dd', null, h('code', null, v.file + (v.line ? `:${v.line}` : '')))])));
    } catch (e) {
      if (this.alive) fill(this.said, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }

  /** Another repository, or another time. */
  turn() {
    fill(this.others);
    void this.lint();
    void this.past();
  }

  /** @param {any[]} findings @param {string} of */
  odd(findings, of) {
    return findings.length === 0 ? h('p.good', null, 'Nothing is odd.') : h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': 'Findings in ' + of}, h('table.plainrows', null, h('thead', null, h('tr', null, h('th', null, 'How bad'), h('th', null, 'What'), h('th', null, 'Where'))),
      h('tbody', null, findings.map((f) => h('tr', null, h('td', null, h('span.st.' + (f.severity === 'error' ? 'bad' : f.severity === 'warning' ? 'ask' : 'faint'), null, f.severity)),
        h('td', null, f.message, h('div.faint', null, f.pointer)), h('td', null, f.line ? h('code', null, `${base(f.file)}:${f.line}`) : '', f.loop ? h('span.faint', null, ' ', f.loop) : ''))))));
  }

  /** The entries of policies and what they have a say in. @param {any} v @param {string} of */
  entries(v, of) {
    return v.policies.filter((/** @type {any} */ p) => p.loops.length || !p.loop).map((/** @type {any} */ p) => [p.loop && h('p', null, 'Of loop ', h('code', null, p.loop)), !p.enabled && h('p.ask', null, 'Recovery is off.'),
      h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': ['Entries of', of, p.loop ?? ''].join(' ')}, h('table.plainrows.entries', null, h('thead', null, h('tr', null, h('th', null, 'List'), h('th', null, 'Entry'), h('th.num', null, 'Decisions'))), h('tbody', null,
        p.entries.map((/** @type {any} */ e) => h('tr', null, h('td', null, e.list), h('td', null, h('code', null, command(e.text))), h('td.num', null, this.decided(e.hits)))),
        h('tr', null, h('td', null, 'on_unknown'), h('td', null, p.on_unknown), h('td.num', null, this.decided(p.unlisted))))))]);
  }

  /** Where a decision stands. @param {any} d */
  at(d) {
    const r = [...world.rows.values()].find((x) => x.repo === this.repo.value && x.loop === d.loop_id), says = `${moment(d.timestamp)} ${d.loop_id} #${d.seq}`;
    return r ? h('a', {href: eventsOf(r.id, {event: 'recovery_*', from: d.timestamp})}, says) : says;
  }

  /** A number of decisions, which leads to them. @param {number} n */
  decided(n) {
    const rows = [...world.rows.values()].filter((r) => r.repo === this.repo.value);
    return n ? h('a', {href: rows.length === 1 ? eventsOf(rows[0].id, {event: 'recovery_*'}) : '/?q=' + encodeURIComponent(this.repo.value)}, n) : '–';
  }

  /** The decisions that differ. @param {any} v */
  decisions(v) {
    const line = (/** @type {string} */ word, /** @type {any} */ x) => [h('dt', null, word), h('dd', null, h('b.' + (verdicts[x.verdict]?.[1] ?? 'bad'), null, verdicts[x.verdict]?.[0] ?? x.verdict), ' ', h('span.tag', null, x.rule), ' ', x.reason)];
    return [h('p', null, v.judged ? [this.decided(v.judged), ` ${v.judged === 1 ? 'decision' : 'decisions'}: ${v.judged - v.differ - v.unknown} the same, ${v.differ} would differ, ${v.unknown} not known.`] : 'It has judged no command in this time.',
      v.differ ? h('span.faint', null, ' Each is judged as its run had come to it.') : ''), v.unread.map((/** @type {any} */ u) => h('p.bad', null, `${u.loop ?? ''} ${u.error}`)),
      v.left_off ? h('p.faint', null, `${v.left_off} older ones are left out.`) : '',
      h('ul.past', null, v.decisions.toReversed().map((/** @type {any} */ d) => h('li', null, h('div.faint', null, this.at(d)), h('pre.command', null, command(d.command)),
        h('dl', null, line('Then', d.was), line('Now', d.now), d.missing && [h('dt', null, 'Depends on'), h('dd', null, d.missing.map((/** @type {string} */ m) => lacks[m] ?? m).join('; '))],
          h('dt', null, 'Became'), h('dd', null, became(d.became))))))];
  }

  async past() {
    const [repo, days] = [this.repo.value, this.days.value];
    if (!repo) return;
    fill(this.hits, h('p.faint', null, 'Reading …'));
    try {
      const v = await change('POST', '/api/v1/policy/replay', {repo, days: Number(days)});
      if (!this.alive || repo !== this.repo.value || days !== this.days.value) return;
      this.settings = JSON.stringify(v.policies[0].settings, null, 2);
      fill(this.hits, this.entries(v, 'the policy in force'), this.decisions(v));
    } catch (e) {
      if (this.alive) fill(this.hits, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }

  async compare() {
    const [repo, days, policy] = [this.repo.value, this.days.value, this.candidate.value];
    if (!repo || !policy.trim()) return;
    fill(this.others, h('p.faint', null, 'Reading …'));
    try {
      const v = await change('POST', '/api/v1/policy/replay', {repo, days: Number(days), policy});
      if (!this.alive || repo !== this.repo.value || days !== this.days.value) return;
      fill(this.others, this.odd(v.policies.flatMap((/** @type {any} */ p) => p.findings), 'the candidate'), this.entries(v, 'the candidate'), this.decisions(v));
    } catch (e) {
      if (this.alive) fill(this.others, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }

  async lint() {
    const repo = this.repo.value;
    fill(this.findings, h('p.faint', null, 'Reading …'));
    try {
      const v = await change('POST', '/api/v1/policy/lint', {repo});
      if (!this.alive || repo !== this.repo.value) return;
      fill(this.findings, this.odd(v.findings, 'the policy in force'));
    } catch (e) {
      if (this.alive) fill(this.findings, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }
}

customElements.define('sl-policy', PolicyScreen);
