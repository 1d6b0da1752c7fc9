import {connect, on, trade, world} from './client.js';
import {dialog, tell, typed} from './dialogs.js';
import {fill, h, say} from './dom.js';
import './screens.js';
import {some} from './time.js';

/** The screens in the order of the navigation: path, name, element. @type {[string, string, string][]} */
const screens = [
  ['/', 'Overview', 'sl-overview'], ['/remediation', 'Remediation', 'sl-remediation'], ['/agents', 'Agents', 'sl-agents'],
  ['/cost', 'Cost', 'sl-cost'], ['/policy', 'Policy', 'sl-policy'], ['/settings', 'Settings', 'sl-settings'],
];
const there = screens.filter(([, , tag]) => customElements.get(tag));

const main = h('main', {id: 'main', tabindex: '-1'});
const state = h('span.state', {role: 'status'});
const links = there.map(([path, name]) => h('a', {href: path}, name));
const count = h('b.count', {hidden: true});
links[0].append(' ', count);

/** The theme is what the system says, or what was chosen here. */
const themes = ['auto', 'light', 'dark'];
let theme = localStorage.getItem('superloop.theme') ?? 'auto';
const themeButton = h('button.quiet', {type: 'button', onclick: () => paint(themes[(themes.indexOf(theme) + 1) % 3])});

/** @param {string} t */
function paint(t) {
  theme = themes.includes(t) ? t : 'auto';
  localStorage.setItem('superloop.theme', theme);
  document.documentElement.dataset.theme = theme;
  say(themeButton, {auto: '◐ auto', light: '○ light', dark: '● dark'}[theme] ?? '');
  themeButton.setAttribute('aria-label', `Theme: ${theme}. Change it`);
}

document.body.append(
  h('a.skip', {href: '#main'}, 'To the content'),
  h('header', null, h('a.brand', {href: '/', 'aria-label': 'superloop, overview'}, 'superloop'), h('nav', {'aria-label': 'Screens'}, links), state, themeButton,
    h('button.quiet.keys', {type: 'button', 'aria-label': 'Keys', onclick: keys}, '?')),
  main,
  h('div', {id: 'told', 'aria-live': 'polite'}));
paint(theme);

function keys() {
  void dialog('Keys', [h('table.keys', null, h('tbody', null, [
    ['j, k', 'the next row, the one before'], ['Enter', 'open it'], ['x', 'choose the row for pause, resume or cancel'], ['/', 'filter'],
    ['n', 'the question that waits longest'], ['o', 'the overview'], ['Esc', 'back'], ['?', 'these keys'],
  ].map(([k, does]) => h('tr', null, h('th', {scope: 'row'}, h('kbd', null, k)), h('td', null, does)))))], []);
}

let shown = '';

/** Shows what the address names. */
function route() {
  if (world.state === 'out') {
    if (shown !== 'out') signIn();
    shown = 'out';
    return;
  }
  if (world.state === 'starting') return;
  // An address that the daemon refuses could not be loaded again.
  const word = location.pathname.split('/')[1], known = word === 'loops' || word === 'questions' || screens.some(([p]) => p.slice(1) === word);
  const path = known ? location.pathname.replace(/%(?![\da-f]{2})/gi, '%25') : '/', parts = path.split('/').filter(Boolean);
  if (path !== location.pathname) history.replaceState(null, '', path + location.search + location.hash);
  const here = screens.find(([p]) => p === path);
  const tag = parts[0] === 'loops' && parts[1] ? 'sl-loop' : parts[0] === 'questions' && parts[1] ? 'sl-question' : here?.[2] ?? 'sl-overview';
  const of = decoded(parts[1] ?? '');
  const key = tag + ' ' + of;
  for (const [i, a] of links.entries()) {
    const current = there[i][2] === tag || i === 0 && ['sl-loop', 'sl-question'].includes(tag);
    if (current) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  if (key === shown) {
    /** @type {any} */ (main.firstElementChild)?.moved?.();
    return;
  }
  const first = shown === '';
  shown = key;
  const screen = document.createElement(tag);
  if (of) /** @type {any} */ (screen).of = of;
  fill(main, screen);
  document.title = here ? `${here[1]} – superloop` : 'superloop';
  scrollTo(0, 0);
  if (!first) main.focus({preventScroll: true});
}

/** A part of the address; as it stands, if it is no encoding of anything. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Says how to open a session. */
function signIn() {
  document.title = 'superloop';
  const code = h('input.code', {name: 'code', autocomplete: 'off', spellcheck: 'false', 'aria-label': 'A code of superloop token code', required: true});
  fill(main, h('section.signin', null, h('h1', null, 'This page has no session'),
    h('p', null, world.detail && world.detail !== 'out' ? `${world.detail}. ` : '', 'Type in a terminal of your own:'),
    h('p', null, typed('superloop ui')),
    h('p.faint', null, 'It opens this page with a code that counts once, within a minute. No cookie is set, and nothing secret is stored: the session ends with the last tab, after 12 hours, or an hour without use.'),
    h('form', {onsubmit: (/** @type {Event} */ e) => {
      e.preventDefault();
      void open(code.value);
    }}, h('label', null, 'Or give a code of ', h('code', null, 'superloop token code'), ': ', code), ' ', h('button', null, 'Open'))));
}

/** @param {string} code */
async function open(code) {
  try {
    await trade(code.trim());
  } catch (e) {
    tell([/** @type {Error} */ (e).message], true);
    world.state = world.state === 'starting' ? 'out' : world.state;
    route();
  }
}

/** @param {string} href */
export function go(href) {
  if (href === location.pathname + location.search) return;
  history.pushState(null, '', href);
  route();
}

document.addEventListener('click', (e) => {
  const a = /** @type {Element} */ (e.target).closest?.('a[href^="/"]');
  if (!a || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || a.hasAttribute('download')) return;
  e.preventDefault();
  go(/** @type {string} */ (a.getAttribute('href')));
});
addEventListener('popstate', route);

document.addEventListener('keydown', (e) => {
  const at = /** @type {HTMLElement} */ (e.target);
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  if (at.closest('input:not([type=checkbox]):not([type=radio]), textarea, select')) {
    if (e.key === 'Escape') at.blur();
    if (e.key === 'Enter' && at.matches('input[type=search]')) /** @type {HTMLElement|null} */ (main.querySelector('.loops a[data-row]'))?.focus();
    return;
  }
  const rows = /** @type {HTMLElement[]} */ ([...main.querySelectorAll('a[data-row]')].filter((r) => /** @type {any} */ (r).checkVisibility()));
  const now = rows.indexOf(/** @type {any} */ (document.activeElement?.closest('[data-of]')?.querySelector('a[data-row]') ?? document.activeElement));
  switch (e.key) {
    case 'j': rows[Math.min(now + 1, rows.length - 1)]?.focus(); break;
    case 'k': rows[Math.max(now - 1, 0)]?.focus(); break;
    case 'x': /** @type {HTMLElement|null} */ (rows[now]?.closest('[data-of]')?.querySelector('input[type=checkbox]'))?.click(); break;
    case '/': /** @type {HTMLElement|null} */ (main.querySelector('input[type=search]'))?.focus(); break;
    case 'n': {
      const q = [...world.questions.values()].sort((a, b) => a.created_at < b.created_at ? -1 : 1)[0];
      if (q) go('/questions/' + encodeURIComponent(q.id));
      break;
    }
    case 'o': go('/'); break;
    case 'Escape': if (location.pathname !== '/') history.length > 1 ? history.back() : go('/'); break;
    case '?': keys(); break;
    default: return;
  }
  e.preventDefault();
});

const forever = new AbortController().signal;
on('state', () => {
  const word = {live: 'live', connecting: 'connecting', lost: 'reconnecting', out: 'no session'}[world.state] ?? '';
  say(state, word, 'state ' + world.state);
  state.title = world.detail;
  route();
}, forever);
on('questions', () => {
  const n = world.questions.size;
  say(count, String(n));
  count.hidden = n === 0;
  count.setAttribute('aria-label', some(n, 'question waits', 'questions wait'));
}, forever);

// The code leaves the address, and so the history, before anything else is done with it.
const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
if (code) history.replaceState(null, '', location.pathname + location.search);
connect();
if (code) void open(code);
