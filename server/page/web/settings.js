import {change, get, list, world} from './client.js';
import {dialog, tell, typed} from './dialogs.js';
import {fill, h, Screen} from './dom.js';
import {make, told, whyNot} from './passkey.js';
import {base} from './states.js';
import {ago, bytes, duration, moment, some, until} from './time.js';

class SettingsScreen extends Screen {
  begin() {
    this.machine = h('section');
    this.repos = h('section');
    this.channels = h('section');
    this.answers = h('section');
    this.space = h('section');
    this.tokens = h('section');
    this.sessions = h('section');
    this.passkeys = h('section');
    this.audit = h('section');
    this.append(h('h1', null, 'Settings'), this.machine, this.answers, this.repos, this.channels, this.space, this.tokens, this.sessions, this.passkeys, this.audit);
    void this.load();
  }

  /** @param {HTMLElement} place @param {string} title @param {() => Promise<any>} f */
  async piece(place, title, f) {
    try {
      const kids = await f();
      if (this.alive) fill(place, h('h2', null, title), kids);
    } catch (e) {
      if (this.alive) fill(place, h('h2', null, title), h('p.faint', null, /** @type {Error} */ (e).message));
    }
  }

  async load() {
    await Promise.all([
      this.piece(this.machine, 'This daemon', async () => {
        const all = await get('/api/v1/machines');
        return all.machines.map((/** @type {any} */ m) => h('dl', null, [['Machine', [`${m.name}, ${m.os}/${m.arch}, ${m.cpus} processors`, m.id ? `, ${m.id}` : '', m.as_of ? h('span.bad', null, ' away since ', ago(m.as_of)) : '']], ['superloop', m.version], ['Process', [`${m.pid}, since `, ago(m.since)]], ['Loops', h('a', {href: '/'}, `${m.loops}, of which ${m.working} ${m.working === 1 ? 'works' : 'work'}`)],
          ['Places', `${m.limits.loops || 'any number of'} loops, ${m.limits.roles || 'any number of'} roles, ${m.limits.per_account || 'any number of'} roles of one account`],
        ].map(([k, v]) => [h('dt', null, k), h('dd', null, v)])));
      }),
      this.piece(this.repos, 'Repositories', async () => {
        const all = await list('/api/v1/repos', 'repos');
        const said = h('div', {role: 'status'});
        return all.length === 0 ? h('p.faint', null, 'None. In a repository, type: superloop start --loop ID') : [table('Repositories', ['Repository', 'Loops', ''], all.map((r) => [h('code', null, r.repo), h('a', {href: '/?q=' + encodeURIComponent(r.repo)}, some(r.loops.length, 'loop')),
          r.gone ? h('span.bad', null, 'it is gone') : h('button.quiet', {type: 'button', 'aria-label': `Examine ${base(r.repo)}`, onclick: () => examine(said, r)}, 'examine')])), said];
      }),
      this.piece(this.answers, 'Who may answer', () => answerers()),
      this.piece(this.channels, 'Channels', () => channels()), this.piece(this.space, 'Kept on the disk', () => kept()),
      this.credentials(this.tokens, 'Tokens of scripts', '/api/v1/tokens', true), this.credentials(this.sessions, 'Sessions of people', '/api/v1/sessions', false),
      this.keys(), this.record(),
    ]);
  }

  /** @param {HTMLElement} place @param {string} title @param {string} path @param {boolean} make */
  credentials(place, title, path, make) {
    return this.piece(place, title, async () => {
      const all = (await get(path)).credentials;
      return [all.length === 0 ? h('p.faint', null, 'There is none.') : table(title, ['Name', 'May', 'Made by', 'Ends', 'Last used', ''], all.map((/** @type {any} */ c) => [h('b', null, c.name, !make && c.name === world.who?.name ? h('span.tag', null, 'this one') : ''), c.scopes.join(', '), c.by, until(c.expires_at), c.used_at ? [ago(c.used_at), ' ago'] : 'never',
        h('button.quiet', {type: 'button', 'aria-label': `End ${c.name}`, onclick: () => this.revoke(path, c.name, () => this.credentials(place, title, path, make))}, 'end')])),
      make && h('p', null, h('button', {type: 'button', onclick: () => this.create(() => this.credentials(place, title, path, make))}, 'Make a token'), h('span.faint', null, ' or ', typed('superloop token create --name NAME --scope read')))];
    });
  }

  /** @param {string} path @param {string} name @param {() => Promise<void>} then */
  async revoke(path, name, then) {
    if (await dialog(`End ${name}?`, [h('p', null, 'What uses it is refused from now on.')], [{value: 'yes', label: `End ${name}`, strong: true}]) !== 'yes') return;
    try {
      await change('DELETE', `${path}/${encodeURIComponent(name)}`);
      await then();
    } catch (e) {
      tell([/** @type {Error} */ (e).message], true);
    }
  }

  /** @param {() => Promise<void>} then */
  async create(then) {
    const name = h('input', {required: true, maxlength: 64, 'aria-label': 'Name'}), days = h('input', {type: 'number', min: 1, max: 366, value: 30, 'aria-label': 'Days'});
    const scopes = ['read', 'control', 'approve'].map((s) => ({s, box: h('input', {type: 'checkbox', checked: s === 'read'})}));
    if (await dialog('A token for a script', [h('p', null, h('label', null, 'Name ', name)), h('p', null, 'It may ', scopes.map(({s, box}) => [h('label', null, box, ' ', s), '  '])), h('p', null, h('label', null, 'for ', days, ' days')), h('p.faint', null, 'It asks for a confirmation, on a terminal or with a passkey.')], [{value: 'yes', label: 'Make it', strong: true}]) !== 'yes') return;
    try {
      const made = await change('POST', '/api/v1/tokens', {name: name.value, scopes: scopes.filter((x) => x.box.checked).map((x) => x.s), expires_in: Number(days.value) * 86400});
      await dialog('The token is shown once', [h('p', null, typed(made.token))], []);
      await then();
    } catch (e) {
      tell([/** @type {Error} */ (e).message], true);
    }
  }

  /** @returns {Promise<void>} */
  keys() {
    return this.piece(this.passkeys, 'Passkeys', async () => {
      const all = (await get('/api/v1/passkeys')).passkeys, no = whyNot();
      return [h('p.faint', null, 'A passkey confirms on this page what otherwise takes a code from a terminal.'),
        all.length > 0 && table('Passkeys', ['Name', 'Of the page', 'Made by', 'Made', 'Last used', ''], all.map((/** @type {any} */ k) => [h('b', null, k.name), [k.host, k.synced ? h('span.faint', null, ', on all your devices') : ''], k.by, moment(k.created_at), k.used_at ? [ago(k.used_at), ' ago'] : 'never',
          h('button.quiet', {type: 'button', 'aria-label': `End ${k.name}`, onclick: () => this.revoke('/api/v1/passkeys', k.name, () => this.keys())}, 'end')])),
        no ? h('p.faint', null, no) : h('p', null, h('button', {type: 'button', onclick: () => this.makeKey()}, 'Make a passkey'))];
    });
  }

  async makeKey() {
    const name = h('input', {required: true, maxlength: 64, 'aria-label': 'Name', placeholder: 'laptop'});
    if (await dialog('A passkey', [h('p', null, h('label', null, 'Name ', name)), h('p.faint', null, 'Your device asks for you first, and then a confirmation is asked for on a terminal.')], [{value: 'yes', label: 'Make it', strong: true}]) !== 'yes') return;
    try {
      await make(name.value);
      await this.keys();
    } catch (e) {
      tell([told(e)], true);
    }
  }

  record() {
    return this.piece(this.audit, 'Who asked for what', async () => {
      const page = await get('/api/v1/audit?limit=100');
      const body = h('tbody', null, page.lines.map(line));
      const more = h('button', {type: 'button', hidden: !page.next_cursor, onclick: async () => {
        const next = await get('/api/v1/audit?limit=200&cursor=' + page.next_cursor);
        body.append(...next.lines.map(line));
        page.next_cursor = next.next_cursor;
        more.hidden = !next.next_cursor;
      }}, 'Earlier');
      return [h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': 'The record of requests'}, h('table.plainrows', null, h('thead', null, h('tr', null, ['When', 'Who', 'From', 'Asked for', 'Verdict'].map((x) => h('th', null, x)))), body)), more];
    });
  }
}

/** Who may approve commands, by what there is now. */
async function answerers() {
  const [people, scripts, keys] = await Promise.all([get('/api/v1/sessions'), get('/api/v1/tokens'), get('/api/v1/passkeys')]);
  const names = (/** @type {any[]} */ all) => all.map((c) => c.name).join(', '), may = scripts.credentials.filter((/** @type {any} */ c) => c.scopes.includes('approve'));
  const by = [...new Set(people.credentials.map((/** @type {any} */ c) => c.by))].join(', ');
  return [h('dl', null, [['On a terminal', `${by || 'the user of the daemon'}, in a process that no agent has started`],
    ['On this page', people.credentials.length ? `${some(people.credentials.length, 'session')}: ${names(people.credentials)}. An old one, and what needs more care, is confirmed ${keys.passkeys.length ? `with a passkey (${names(keys.passkeys)}) or ` : ''}by a code on a terminal` : 'nobody'],
    ['Scripts', may.length ? `${some(may.length, 'token')} with the scope approve: ${names(may)}` : 'none: no token has the scope approve'],
    ['Agents', 'At L0 an agent is your user, and could answer for you. At L1 it sees neither the tokens nor the socket, and no token lets a process answer that descends from an agent. “Examine” a repository: superloop doctor measures what holds here.'],
  ].map(([k, v]) => [h('dt', null, k), h('dd', null, v)]))];
}

/** What superloop doctor finds, when it is asked: it takes seconds, and starts programs. @param {HTMLElement} said @param {any} of a repository */
async function examine(said, {repo, machine}) {
  fill(said, h('p.faint', null, 'Examining …'));
  try {
    const tones = /** @type {Record<string, string>} */ ({ok: 'good', warn: 'ask', fail: 'bad'});
    const found = await change('POST', '/api/v1/doctor', {repo, machine});
    fill(said, table('What the doctor found in ' + base(repo), ['Check', '', 'Found', 'What to do'], found.checks.map((/** @type {any} */ c) => [c.name, h('span.' + tones[c.status], null, c.status), c.detail, c.fix])));
  } catch (e) {
    fill(said, h('p.bad', null, /** @type {Error} */ (e).message));
  }
}

/** How people are told, by repository. */
async function channels() {
  const all = await list('/api/v1/channels', 'repos');
  const rows = all.flatMap((r) => r.error || r.known.channels_unknown ? [[base(r.repo), '', '', '', h('span.bad', null, r.error || r.known.channels_unknown)]] : r.known.channels.map((/** @type {any} */ c) => {
    const said = h('span', {role: 'status'});
    return [h('span', {title: r.repo}, base(r.repo)), h('b', null, c.channel), [c.type || 'by its address', c.second ? h('span.tag', {title: 'It is told when nobody has answered for a while'}, 'second line') : ''], c.tell.join(', '), [c.lacks ? h('span.bad', null, c.lacks, ' ') : '', h('button.quiet', {type: 'button', 'aria-label': `Send a test on ${c.channel} of ${base(r.repo)}`, onclick: () => tryOut(said, r, c.channel)}, 'send a test'), ' ', said]];
  }));
  const late = all.reduce((n, r) => n + (r.known?.messages.length ?? 0), 0);
  return [rows.length === 0 ? h('p.faint', null, 'No repository has a channel: nobody is told when a loop asks.') : table('Channels', ['Repository', 'Channel', 'Type', 'Is told of', ''], rows),
    late > 0 && h('p.ask', null, `${some(late, 'message is', 'messages are')} not delivered: `, typed('superloop notify list'))];
}

/** @param {HTMLElement} said @param {any} of a repository @param {string} channel */
async function tryOut(said, {repo, machine}, channel) {
  fill(said, 'sending …');
  try {
    const got = (await change('POST', '/api/v1/channels/test', {repo, machine, channel})).channels[0];
    fill(said, h('span.' + (got.status === 'delivered' ? 'good' : 'bad'), null, `${got.status}, ${duration(got.duration_ms)}${got.reason ? ': ' + got.reason : ''}`));
  } catch (e) {
    fill(said, h('span.bad', null, /** @type {Error} */ (e).message));
  }
}

/** What superloop takes on the disk, and what goes when. */
async function kept() {
  const [machines, all] = await Promise.all([get('/api/v1/machines'), list('/api/v1/space', 'repos')]), k = machines.machines[0]?.keep ?? {};
  const sum = (/** @type {any} */ u) => u.journals + u.logs + u.archives + u.reports + u.undo + u.private;
  return [h('p', null, 'Once a day logs and archives go ', k.days ? `that are older than ${some(k.days, 'day')}` : 'at no age', k.gib ? `, and the oldest when those of a repository take more than ${k.gib} GiB` : ', whatever they take', '. Journals stay. ', h('span.faint', null, typed('superloop serve --keep-days N --keep-gib N'))),
    all.length > 0 && table('Kept on the disk', ['Repository', 'Journals', 'Logs', 'Archives', 'Undo', 'All', 'Is due'], all.map((r) => [h('span', {title: r.repo}, base(r.repo)), ...r.error ? [h('span.bad', null, r.error), '', '', '', '', ''] : [r.known.use.journals, r.known.use.logs, r.known.use.archives, r.known.use.undo, sum(r.known.use), r.known.bytes].map((n) => bytes(n))]))];
}

/** @param {any} l */
function line(l) {
  return h('tr', null, h('td', null, moment(l.at)), h('td', null, l.user || '–', l.token ? h('span.faint', null, ' ', l.token) : ''), h('td', null, l.channel, h('span.faint', null, l.exe ? ' ' + l.exe.split('/').pop() : '', l.pids?.length ? ` ${l.pids[0]}` : '')), h('td', null, h('code', null, `${l.method} ${l.path}`)),
    h('td', null, h('span.' + (l.verdict === 'done' ? 'good' : 'bad'), null, l.verdict), ' ', l.status, l.reason ? h('span.faint', null, ' ', l.reason) : '', l.confirmed ? h('span.faint', null, ' by ', l.confirmed) : '', l.count > 1 ? ` (${l.count} alike)` : ''));
}

/** @param {string} name @param {string[]} head @param {any[][]} rows */
function table(name, head, rows) {
  return h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': name}, h('table.plainrows', null, h('thead', null, h('tr', null, head.map((x) => x ? h('th', null, x) : h('td')))), h('tbody', null, rows.map((r) => h('tr', null, r.map((x) => h('td', null, x)))))));
}

customElements.define('sl-settings', SettingsScreen);
