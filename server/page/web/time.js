import {h, say} from './dom.js';

/** A duration in words, as the command line says it. @param {number} ms */
export function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 1) return ms > 0 && ms < 1000 ? `${Math.round(ms)} ms` : '0 s';
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60), hours = Math.floor(m / 60), d = Math.floor(hours / 24);
  if (m < 10 && s % 60) return `${m} min ${s % 60} s`;
  if (m < 60) return `${m} min`;
  if (hours < 24) return m % 60 ? `${hours} h ${m % 60} m` : `${hours} h`;
  return hours % 24 ? `${d} d ${hours % 24} h` : `${d} d`;
}

/** Without seconds from a minute on: for what is seen all day. @param {number} ms */
export function calm(ms) {
  return ms < 60_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(Math.floor(ms / 60_000) * 60_000);
}

/** @type {Set<{el: HTMLElement, f: (now: number) => string, drawn: boolean}>} */
const clocks = new Set();

function tick() {
  const now = Date.now();
  for (const c of clocks) {
    if (!c.el.isConnected && c.drawn) clocks.delete(c);
    else {
      c.drawn = c.el.isConnected;
      say(c.el, c.f(now));
    }
  }
}
setInterval(tick, 1000);

/** A text that follows the clock. @param {(now: number) => string} f @param {string} [spec] @param {Record<string, any>} [attrs] */
export function clock(f, spec = 'span', attrs = {}) {
  const el = h(spec, attrs);
  say(el, f(Date.now()));
  clocks.add({el, f, drawn: false});
  return el;
}

/** How long ago a time is, or how long until it. @param {string|undefined|null} at @param {string} [spec] */
export function ago(at, spec = 'time') {
  if (!at) return h('span.faint', null, '–');
  const t = Date.parse(at);
  return clock((now) => calm(now - t), spec, {datetime: at, title: moment(at)});
}

/** How long it is until a time. @param {string} at @param {number} now */
export const wait = (at, now) => Date.parse(at) > now ? 'in ' + calm(Date.parse(at) - now) : 'now';

/** @param {string} at @param {string} [past] */
export function until(at, past = 'now') {
  const t = Date.parse(at);
  return clock((now) => t <= now ? past : wait(at, now), 'time', {datetime: at, title: moment(at)});
}

/** @param {number} n */
const two = (n) => String(n).padStart(2, '0');

/** A time of this machine's zone, to the second. @param {string} at */
export function moment(at) {
  const d = new Date(at);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** The time of day; with the date if it is not today's. @param {string} at */
export function timeOfDay(at) {
  const d = new Date(at), s = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return d.toDateString() === new Date().toDateString() ? s : `${two(d.getMonth() + 1)}-${two(d.getDate())} ${s}`;
}

/** Money. null and undefined are not known, and never 0. @param {number|null|undefined} usd */
export function money(usd) {
  if (usd === null || usd === undefined) return 'unknown';
  return '$' + (usd >= 100 ? usd.toFixed(0) : usd !== 0 && Math.abs(usd) < 0.01 ? usd.toFixed(4) : usd.toFixed(2));
}

/** @param {number|null|undefined} n */
export function count(n) {
  if (n === null || n === undefined) return 'unknown';
  for (const [unit, size] of /** @type {[string, number][]} */ ([['G', 1e9], ['M', 1e6], ['k', 1e4]])) {
    if (n >= size) return (n / (unit === 'k' ? 1e3 : size)).toFixed(n / size < 10 && unit !== 'k' ? 1 : 0) + ' ' + unit;
  }
  return String(n);
}

/** @param {number} n @param {string} word @param {string} [many] */
export function some(n, word, many) {
  return `${n} ${n === 1 ? word : many ?? word + 's'}`;
}

/** @param {number} n */
export function bytes(n) {
  return n < 1024 ? `${n} B` : n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}
