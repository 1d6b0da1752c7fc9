import {Answer} from './answer.js';
import {get, onQuestion, world} from './client.js';
import {typed} from './dialogs.js';
import {fill, h, Screen} from './dom.js';
import {diffLines} from './diff.js';
import {eventsOf, where} from './states.js';
import {command, output, show} from './text.js';
import {ago, duration, moment, some, until} from './time.js';

class QuestionScreen extends Screen {
  of = '';
  /** The answer was given here. */
  mine = false;

  begin() {
    /** @type {any} */ this.q = null;
    this.box = h('div');
    this.note = h('div.banner', {hidden: true, role: 'alert'});
    this.append(this.note, this.box);
    onQuestion((q) => {
      if (q.id === this.of) void this.load();
    }, this.life.signal);
    void this.load();
  }

  /** @param {string} [note] */
  async load(note) {
    try {
      const q = await get('/api/v1/escalations/' + encodeURIComponent(this.of));
      if (!this.alive) return;
      const was = this.q;
      if (note) this.say(note);
      if (was && was.state === q.state && was.digest === q.digest) return;
      this.q = q;
      if (was?.state === 'pending' && q.state !== 'pending' && !this.mine && !note) note = q.by ? `It was answered meanwhile, by ${q.by}: ${(outcomes[q.state] ?? q.state).toLowerCase()}.` : 'It does not wait any more.';
      if (note || this.mine) this.say(note ?? ''); // who was told keeps it, whatever becomes of the answer that counted
      this.draw(q);
    } catch (e) {
      if (this.alive) fill(this.box, h('h1', null, 'This question cannot be shown'), h('p', null, /** @type {Error} */ (e).message), h('p', null, h('a', {href: '/'}, 'To the overview')));
    }
  }

  /** @param {string} note */
  say(note) {
    this.note.hidden = !note;
    fill(this.note, note);
  }

  /** @param {any} q */
  draw(q) {
    const r = world.rows.get(q.loop_id), v = q.question ?? {}, c = q.command;
    document.title = `${q.title} – superloop`;
    const pending = q.state === 'pending';
    const runs = c && v.type !== 'tool_permission'; // superloop runs it, and not the agent
    const facts = [
      c && ['Directory', h('code', null, c.dir)], runs && ['Time limit', duration(c.timeout_ms)], runs && ['Network', c.network === 'none' ? 'none' : c.network === 'full' ? 'all of it' : 'as the agents have it'],
      c && ['Proposed by', c.role && c.role !== c.source ? `${c.role} (${c.source})` : c.source], c?.category && ['About', [c.category, c.severity, c.confidence && c.confidence + ' confidence'].filter(Boolean).join(', ')],
      c?.root_cause && ['Cause', c.root_cause], c?.expected_outcome && ['Expected', c.expected_outcome], q.failure?.label && ['Rules say', q.failure.label],
      ['Why you', h('span', {title: v.rule}, v.reason)],
    ].filter(Boolean);
    fill(this.box, h('div.question', null,
      h('header.ask', null, h('h1', null, q.title),
        h('p.meta', null, h('a', {href: '/loops/' + encodeURIComponent(q.loop_id)}, v.loop_id), r ? ` · ${where(r)}` : '', ' · ', h('a', {href: `/loops/${encodeURIComponent(q.loop_id)}#timeline`}, `iteration ${v.iteration}`), ' · ', h('a', {href: eventsOf(q.loop_id, {from: q.created_at})}, 'asked ', ago(q.created_at), ' ago', pending ? [r?.hold ? ' · the agent gives up ' : ' · expires ', until(r?.hold?.until ?? q.expires_at)] : ''))),
      h('section.what', {'aria-label': 'What would run'}, c && [h('pre.command', {'aria-label': 'The command'}, command(c.display)), h('p.faint', null, `${some(c.bytes, 'byte')}, sha256 `, h('code', null, c.sha256?.slice(0, 16)), c.exact ? '' : ', not all of it UTF-8', edges(c.text))],
        h('dl', null, facts.map((f) => [h('dt', null, /** @type {any} */ (f)[0]), h('dd', null, /** @type {any} */ (f)[1])]))),
      pending ? new Answer(q, this).el : outcome(q),
      h('div.details', null, details(q), h('section.past', {'aria-label': 'Before'})),
    ));
    void this.past(q);
  }

  /** What became of the same command before. @param {any} q */
  async past(q) {
    if (!q.command) return;
    try {
      const all = await get(`/api/v1/escalations?state=all&limit=1000&loop=${encodeURIComponent(q.loop_id)}`);
      const same = all.escalations.filter((/** @type {any} */ x) => x.id !== q.id && x.command?.sha256 === q.command.sha256).reverse();
      const place = this.box.querySelector('.past');
      if (!place || !this.alive || same.length === 0) return;
      fill(place, h('h2', null, 'The same command before'), h('ul.plain', null, same.slice(0, 8).map((/** @type {any} */ x) => h('li', null, h('a', {href: '/questions/' + x.id}, x.state), h('span.faint', null, ` ${moment(x.created_at)}${x.by ? ', ' + x.by : ''}`)))));
    } catch {
      // It is not needed to decide.
    }
  }
}

/** @param {string} s */
function edges(s) {
  const a = /^\s/.test(s), b = /\s$/.test(s);
  return a && b ? ', begins and ends with a blank' : a ? ', begins with a blank' : b ? ', ends with a blank' : '';
}

/** @param {string} title @param {any[]} kids @param {any} [count] */
function part(title, kids, count) {
  return h('section', null, h('h2', null, title, count ? h('span.faint', null, ' ', count) : ''), kids);
}

/** @param {any} q */
function details(q) {
  const c = q.command, v = q.question ?? {}, a = c?.analysis;
  /** @type {any[]} */
  const out = [];
  if (a?.hidden?.length) out.push(part('Characters that people do not see, or take for others', [h('ul.plain', null, a.hidden.map((/** @type {any} */ x) => h('li', null, h('span.mark', null, x.name.replace(/[<>]/g, '')), ` at byte ${x.offset}`)))]));
  if (a?.parts?.length > 1 || a?.opaque?.length || a?.privileged || a?.wrapper_state) {
    out.push(part('What it runs', [
      h('ol.parts', null, (a.parts ?? []).slice(0, 40).map((/** @type {any} */ p) => h('li', null, h('code', null, p.text)))),
      a.opaque?.length && h('ul.plain', null, a.opaque.map((/** @type {any} */ o) => h('li.ask', null, 'Nobody can see from its text: ', o.why, o.part ? [': ', h('code', null, o.part)] : ''))),
      a.privileged && h('p.bad', null, 'It runs with other rights: ', h('code', null, a.privileged)),
      a.wrapper_state && h('p.bad', null, 'It touches superloop’s own files: ', h('code', null, a.wrapper_state)),
    ]));
  }
  if (c?.inputs_diff) out.push(part('What it reads is not what was trusted', [diffLines(c.inputs_diff)]));
  if (c?.nearest) out.push(part(c.nearest.text === c.text ? `It is entry ${c.nearest.entry + 1} of auto_approve` : `Nearest listed command`, c.nearest.text === c.text ? [] : [near(c.nearest.text, c.text), h('p.faint', null, `entry ${c.nearest.entry + 1} of auto_approve; it is not this command`)]));
  if (c?.hits?.length) out.push(part('Patterns of require_human that fit', [h('ul.plain', null, c.hits.map((/** @type {any} */ x) => h('li', null, h('code', null, x.pattern), ' fits ', x.part ? h('code', null, x.part) : 'all of it')))]));
  if (c?.evidence?.length) out.push(part('Evidence', [h('ul.evidence', null, c.evidence.map((/** @type {string} */ e) => h('li', null, h('code', null, e))))]));
  if (q.stderr) out.push(part('What the failed command printed last', [h('pre.out', {tabindex: '0'}, output(q.stderr))], q.exit_code === null ? '' : `exit code ${q.exit_code}`));
  if (v.details) out.push(part('What it is about', [h('pre.out', {tabindex: '0'}, show(v.details, true))]));
  if (v.errors?.length) out.push(part('What went wrong before', [v.errors.map((/** @type {string} */ e) => h('pre.out', {tabindex: '0'}, output(e)))]));
  const crumbs = q.chain?.breadcrumbs;
  if (crumbs?.length) out.push(part('How it came here', [h('ol.crumbs', null, crumbs.map((/** @type {any} */ b) => h('li', null, b.label ?? '', b.status ? h('span.faint', null, ' ', b.status) : '')))]));
  if (q.options?.length) out.push(part('Ways on', [q.state !== 'pending' || q.options.some((/** @type {any} */ o) => o.answer === 'choose') ? '' : h('p.faint', null, 'Known for this failure. None of them runs by an answer here: take one in a terminal, and say that it is mended.'), options(q.options)]));
  if (q.ways?.length) out.push(h('details.typedways', null, h('summary', null, 'The same by typing'), q.ways.map((/** @type {any} */ w) => h('p', null, h('span.faint', null, w.does, ' '), typed(w.line)))));
  out.push(h('p.faint.ids', null, 'Question ', h('code', null, q.id), ', digest ', h('code', null, q.digest.slice(0, 16)), ', ', h('a', {href: `/loops/${encodeURIComponent(q.loop_id)}#events`}, 'its events')));
  return out;
}

/** @param {any[]} all */
function options(all) {
  return h('ul.options', null, all.map((o) => h('li.' + (o.availability || 'ready'), null,
    h('b', null, o.label || o.id), o.recommended ? h('span.tag', null, 'recommended') : '', h('span.tag.' + (o.availability || 'ready'), null, o.availability || 'ready'), o.tried ? h('span.tag', null, 'tried: ' + o.tried) : '',
    o.command ? h('code.block', null, o.command) : '', o.description ? h('p', null, o.description) : '',
    o.lock_reason ? h('p.faint', null, 'Locked: ', o.lock_reason, o.unlock_deps?.length ? ` (unlocked by ${o.unlock_deps.join(', ')})` : '') : '', o.impossible_reason ? h('p.faint', null, 'Impossible: ', o.impossible_reason) : '',
    o.withheld ? h('p.faint', null, 'Not by itself: ', o.withheld) : '', o.experience ? h('p.faint', null, o.experience) : '')));
}

/** Two commands above each other; what differs is marked. @param {string} listed @param {string} proposed */
function near(listed, proposed) {
  let at = 0, end = 0;
  while (at < listed.length && at < proposed.length && listed[at] === proposed[at]) at++;
  while (end < listed.length - at && end < proposed.length - at && listed[listed.length - 1 - end] === proposed[proposed.length - 1 - end]) end++;
  const line = (/** @type {string} */ name, /** @type {string} */ s, /** @type {string} */ tag) => h('div', null, h('span.faint', null, name), h('code', null, s.slice(0, at), h(tag, null, s.slice(at, s.length - end)), s.slice(s.length - end)));
  return h('div.near', null, line('listed', listed, 'del'), line('proposed', proposed, 'ins'));
}

/** What became of a question. @type {Record<string, string>} */
const outcomes = {approved: 'Approved', executing: 'Approved, and it runs now', done: 'Approved; it ran, and ended well', failed: 'Approved; it ran, and failed', interrupted: 'Interrupted', rejected: 'Rejected', resolved: 'Done by hand', expired: 'Expired', superseded: 'Another question took its place'};

/** @param {any} q */
function outcome(q) {
  const v = q.question ?? {};
  return h('section.answer.over', {'aria-label': 'The answer'}, h('h2', null, outcomes[q.state] ?? q.state),
    h('dl', null, q.by && [h('dt', null, 'By'), h('dd', null, q.by)], q.answered_at && [h('dt', null, 'At'), h('dd', null, moment(q.answered_at))], v.note && [h('dt', null, 'Note'), h('dd', null, v.note)],
      v.edited_command && [h('dt', null, 'Ran instead'), h('dd', null, h('code', null, v.edited_command))], v.exit_code !== undefined && [h('dt', null, 'Exit code'), h('dd', null, v.exit_code)], v.why && [h('dt', null, 'Because'), h('dd', null, v.why)]),
    h('p', null, nextQuestion(q.id), h('a.button', {href: '/', 'data-row': true}, 'To the overview')));
}

/** @param {string} id */
function nextQuestion(id) {
  const q = [...world.questions.values()].filter((x) => x.id !== id).sort((a, b) => a.created_at < b.created_at ? -1 : 1)[0];
  return q ? [h('a.button', {href: '/questions/' + encodeURIComponent(q.id)}, 'The next question'), ' '] : '';
}

customElements.define('sl-question', QuestionScreen);
