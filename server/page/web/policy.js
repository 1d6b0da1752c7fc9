import {change, list} from './client.js';
import {fill, h, Screen} from './dom.js';
import {base} from './states.js';
import {command} from './text.js';

class PolicyScreen extends Screen {
  begin() {
    this.repo = h('select', {'aria-label': 'Repository', onchange: () => this.lint()});
    this.text = h('textarea', {rows: 2, spellcheck: 'false', 'aria-label': 'A command', placeholder: 'rm -rf node_modules && npm ci'});
    this.said = h('div', {'aria-live': 'polite'});
    this.findings = h('div');
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
      h('section', null, h('h2', null, 'What is odd in it'), this.findings));
    void this.load();
  }

  async load() {
    try {
      const all = await list('/api/v1/repos', 'repos');
      if (!this.alive) return;
      fill(this.repo, all.filter((r) => !r.gone).map((r) => h('option', {value: r.repo}, `${base(r.repo)} (${r.repo})`)));
      if (this.repo.value) void this.lint();
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
      const word = {auto: ['It runs by itself', 'good'], human: ['A person is asked', 'ask'], deny: ['It is denied', 'bad']}[/** @type {string} */ (v.verdict)] ?? [v.verdict, 'bad'];
      fill(this.said, h('div.verdict', null, h('p', null, h('b.' + word[1], null, word[0]), v.rule ? h('span.tag', null, v.rule) : ''), h('p', null, v.reason), h('pre.command', null, command(v.display ?? '')),
        h('dl', null, v.entry_text && [h('dt', null, 'Entry'), h('dd', null, h('code', null, v.entry_text))], v.pattern_text && [h('dt', null, 'Pattern'), h('dd', null, h('code', null, v.pattern_text))], v.part && [h('dt', null, 'Part'), h('dd', null, h('code', null, v.part))],
          v.nearest && [h('dt', null, 'Nearest entry'), h('dd', null, h('code', null, v.nearest.text))], v.file && [h('dt', null, 'Stands in'), h('dd', null, h('code', null, v.file + (v.line ? `:${v.line}` : '')))])));
    } catch (e) {
      if (this.alive) fill(this.said, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }

  async lint() {
    const repo = this.repo.value;
    fill(this.findings, h('p.faint', null, 'Reading …'));
    try {
      const v = await change('POST', '/api/v1/policy/lint', {repo});
      if (!this.alive || repo !== this.repo.value) return;
      fill(this.findings, v.findings.length === 0 ? h('p.good', null, 'Nothing is.') : h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': 'Findings'}, h('table.plainrows', null, h('thead', null, h('tr', null, h('th', null, 'How bad'), h('th', null, 'What'), h('th', null, 'Where'))),
        h('tbody', null, v.findings.map((/** @type {any} */ f) => h('tr', null, h('td', null, h('span.st.' + (f.severity === 'error' ? 'bad' : f.severity === 'warning' ? 'ask' : 'faint'), null, f.severity)),
          h('td', null, f.message, h('div.faint', null, f.pointer)), h('td', null, h('code', null, `${base(f.file)}:${f.line}`), f.loop ? h('span.faint', null, ' ', f.loop) : '')))))));
    } catch (e) {
      if (this.alive) fill(this.findings, h('p.bad', null, /** @type {Error} */ (e).message));
    }
  }
}

customElements.define('sl-policy', PolicyScreen);
