// The tab's side of the hub: requests, and the loops and questions as the stream tells them.
import {frame} from './dom.js';
import {Hub} from './hub.js';
import {machines} from './states.js';

/** A refusal of the daemon, RFC 9457. */
export class Refusal extends Error {
  /** @param {number} status @param {any} p */
  constructor(status, p) {
    const more = Array.isArray(p?.errors) ? p.errors.map((/** @type {any} */ e) => `; ${e.location ? e.location + ': ' : ''}${e.message}`).join('') : '';
    super((p?.detail ?? String(p || 'it failed')) + more);
    this.status = status;
    this.kind = String(p?.type ?? '').replace('urn:superloop:', '');
    this.challenge = p?.challenge;
    this.what = p?.what;
    this.passkey = p?.passkey;
    this.next = p?.next;
  }
}

/** What the stream has told. @type {{rows: Map<string, any>, questions: Map<string, any>, state: string, detail: string, who: any, told: boolean}} */
export const world = {rows: new Map(), questions: new Map(), state: 'starting', detail: '', who: null, told: false};

const bus = new EventTarget();

/**
 * Calls f, once a frame at most, after something of a kind has changed: rows, questions, state.
 * @param {string} kind @param {() => void} f @param {AbortSignal} signal
 */
export function on(kind, f, signal) {
  bus.addEventListener(kind, () => frame(f), {signal});
}

/**
 * Calls f when the stream has told events of a loop, or may have left some out.
 * @param {string} loop @param {() => void} f @param {AbortSignal} signal
 */
export function watch(loop, f, signal) {
  bus.addEventListener('loop ' + loop, () => f(), {signal});
  post({op: 'watch', loop, on: true});
  signal.addEventListener('abort', () => post({op: 'watch', loop, on: false}));
}

/** Calls f with each question whose state has changed. @param {(q: any) => void} f @param {AbortSignal} signal */
export function onQuestion(f, signal) {
  bus.addEventListener('question', (e) => f(/** @type {CustomEvent} */ (e).detail), {signal});
}

/** @type {(m: any) => void} */
let post = () => {};
/** @type {Map<number, (r: any) => void>} */
const waiting = new Map();
let ids = 0;

/** @param {any} m */
function take(m) {
  switch (m.kind) {
    case 'reply':
      waiting.get(m.id)?.(m);
      waiting.delete(m.id);
      break;
    case 'state': {
      world.state = m.state;
      world.detail = m.detail;
      world.who = m.who;
      if (m.state === 'live') world.told = true;
      if (m.state === 'out') world.told = false;
      bus.dispatchEvent(new Event('state'));
      break;
    }
    case 'patch':
      if (m.whole) {
        world.rows.clear();
        world.questions.clear();
      }
      for (const id of m.gone) world.rows.delete(id);
      for (const r of m.rows) world.rows.set(r.id, r);
      if (m.rows.some((/** @type {any} */ r) => r.machine && !machines.has(r.machine))) void learn();
      for (const q of m.questions) {
        if (q.state === 'pending') world.questions.set(q.id, q);
        else world.questions.delete(q.id);
        bus.dispatchEvent(new CustomEvent('question', {detail: q}));
      }
      if (m.whole || m.rows.length || m.gone.length) bus.dispatchEvent(new Event('rows'));
      if (m.whole || m.questions.length) bus.dispatchEvent(new Event('questions'));
      for (const id of new Set([...m.events, ...m.gaps].map((e) => e.loop_id))) bus.dispatchEvent(new Event('loop ' + id));
  }
}

/** Learns which machines there are. */
async function learn() {
  const all = await get('/api/v1/machines').catch(() => null);
  for (const m of all?.machines ?? []) machines.set(m.id, m);
  for (const [id, r] of world.rows) world.rows.set(id, {...r}); // they are drawn anew
  bus.dispatchEvent(new Event('rows'));
}

/** Reaches the hub: one for all tabs, or one in this tab. */
export function connect() {
  if ('SharedWorker' in window) {
    const tt = /** @type {any} */ (window).trustedTypes;
    // The only text of the page that ever becomes a script's address is this one.
    const policy = tt?.createPolicy('superloop-worker', {createScriptURL: (/** @type {string} */ s) => {
      if (s !== '/worker.js') throw new TypeError('no other worker');
      return s;
    }});
    const url = policy ? policy.createScriptURL('/worker.js') : '/worker.js';
    const worker = new SharedWorker(url, /** @type {any} */ ({type: 'module', name: 'superloop', extendedLifetime: true}));
    worker.port.onmessage = (e) => take(e.data);
    worker.port.start();
    post = (m) => worker.port.postMessage(m);
    addEventListener('pagehide', () => post({op: 'bye'}));
    addEventListener('pageshow', (e) => {
      if (e.persisted) location.reload();
    });
  } else {
    const into = new Hub().join((m) => queueMicrotask(() => take(m)));
    post = (m) => into(m);
  }
  post({op: 'hello'});
}

/** @param {any} m @returns {Promise<any>} */
function ask(m) {
  const id = ++ids;
  return new Promise((ok) => {
    waiting.set(id, ok);
    post({...m, id});
  });
}

/** @param {any} m */
async function call(m) {
  const r = await ask({op: 'call', ...m});
  if (!r.ok) throw new Refusal(r.status, r.data);
  return r.data;
}

/** @param {string} path @param {Record<string, string>} [headers] @returns {Promise<any>} */
export function get(path, headers) {
  return call({path, headers});
}

/** @param {string} code */
export async function trade(code) {
  const r = await ask({op: 'trade', code});
  if (!r.ok) throw new Refusal(r.status, r.data);
}

/** Asks a person for the code of superloop confirm, or for a passkey; '': ask the daemon anew; null: they do not want to. @type {(why: Refusal, wrong: boolean) => Promise<string|null>} */
let confirmBy = async () => null;

/** @param {typeof confirmBy} f */
export function confirmWith(f) {
  confirmBy = f;
}

/**
 * Asks for a change. It is carried out once, also if the answer is lost and it is sent again. What needs a person at a
 * terminal asks for the code first.
 * @param {string} method @param {string} path @param {any} [body] @returns {Promise<any>}
 */
export async function change(method, path, body) {
  /** @type {Record<string, string>} */
  const headers = {'Idempotency-Key': crypto.randomUUID()};
  let asked = false;
  for (let tries = 0; ;) {
    try {
      return await call({method, path, body, headers});
    } catch (e) {
      if (!(e instanceof Refusal)) throw e;
      if (e.kind === 'step-up-required' || asked && e.kind === 'bad-confirmation') {
        const code = await confirmBy(e, asked);
        if (code === null) throw new Refusal(e.status, {detail: 'nothing was done: it was not confirmed', type: 'urn:superloop:not-confirmed'});
        delete headers['Superloop-Confirm'];
        if (code) headers['Superloop-Confirm'] = code.trim();
        asked = code !== '';
        continue;
      }
      if (e.status !== 0 || ++tries > 3) throw e;
      await new Promise((ok) => setTimeout(ok, 400 * tries));
    }
  }
}

/** All pages of a list. @param {string} path @param {string} field @param {number} [most] @returns {Promise<any[]>} */
export async function list(path, field, most = 5000) {
  /** @type {any[]} */
  const all = [];
  let cursor = '';
  do {
    const page = await get(`${path}${path.includes('?') ? '&' : '?'}limit=1000${cursor ? '&cursor=' + encodeURIComponent(cursor) : ''}`);
    all.push(...page[field]);
    cursor = page.next_cursor ?? '';
  } while (cursor && all.length < most);
  return all;
}
