import {flat, show} from './text.js';

/** What an element may hold: texts, nodes, nothing, and lists of these. @typedef {any} Kid */

/** @param {any[]} kids @returns {(string|Node)[]} */
function nodes(kids) {
  return kids.flatMap((k) => {
    if (k === null || k === undefined || k === false || k === '') return [];
    if (Array.isArray(k)) return nodes(k);
    if (k instanceof Node) return [k];
    return show(String(k), true);
  });
}

/**
 * Makes an element: h('a.row', {href: '/x', onclick}, 'text', child). Every text goes through show; nothing is parsed.
 * @param {string} spec tag.class.class
 * @param {Record<string, any>|null} [attrs] @param {...Kid} kids
 * @returns {any}
 */
export function h(spec, attrs, ...kids) {
  const [tag, ...classes] = spec.split('.');
  const el = document.createElement(tag);
  if (classes.length) el.className = classes.join(' ');
  for (const [name, v] of Object.entries(attrs ?? {})) {
    if (v === null || v === undefined || v === false) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), v);
    else if (name === 'value' || name === 'checked' || name === 'disabled' || name === 'indeterminate') /** @type {any} */ (el)[name] = v;
    else el.setAttribute(name, v === true ? '' : flat(String(v)));
  }
  el.append(...nodes(kids));
  return el;
}

/** Puts other content into an element, unless it says the same as before. @param {Element} el @param {...Kid} kids */
export function fill(el, ...kids) {
  el.replaceChildren(...nodes(kids));
}

/** @type {WeakMap<Element, string>} */
const said = new WeakMap();

/** Puts a text into an element if it is another one. @param {Element} el @param {string} s @param {string} [cls] */
export function say(el, s, cls) {
  const key = s + '\0' + (cls ?? '');
  if (said.get(el) === key) return;
  said.set(el, key);
  el.replaceChildren(...show(s));
  if (cls !== undefined) el.className = cls;
}

/**
 * Brings the children of list into the order of keys, and makes and removes what is needed.
 * @template T @param {Element} list @param {Map<string, {el: Element, row: T}>} have @param {string[]} keys
 * @param {(key: string) => {el: Element, row: T}} make
 */
export function arrange(list, have, keys, make) {
  const wanted = new Set(keys);
  for (const [key, x] of have) {
    if (!wanted.has(key)) {
      x.el.remove();
      have.delete(key);
    }
  }
  let at = list.firstElementChild;
  for (const key of keys) {
    let x = have.get(key);
    if (!x) have.set(key, x = make(key));
    if (x.el === at) at = at.nextElementSibling;
    else list.insertBefore(x.el, at);
  }
}

/** @type {Set<() => void>} */
const due = new Set();

/** Calls f once in the next frame, however often it is asked for before. @param {() => void} f */
export function frame(f) {
  if (due.size === 0) {
    // A tab that is not seen gets no frames, and must not gather work for when it is.
    const run = () => {
      const now = [...due];
      due.clear();
      for (const g of now) g();
    };
    if (document.hidden) setTimeout(run, 200);
    else requestAnimationFrame(run);
  }
  due.add(f);
}

/** A screen: an element whose subscriptions end when it leaves the page. */
export class Screen extends HTMLElement {
  constructor() {
    super();
    this.life = new AbortController();
  }

  connectedCallback() {
    this.life = new AbortController();
    this.begin();
  }

  disconnectedCallback() {
    this.life.abort();
  }

  /** Shows the screen. */
  begin() {}

  /** Whether the screen is still there; for what comes back after it was left. */
  get alive() {
    return !this.life.signal.aborted;
  }
}

/** Shows or takes away an element. @param {HTMLElement} el @param {boolean} on */
export function visible(el, on) {
  if (el.hidden === on) el.hidden = !on;
}
