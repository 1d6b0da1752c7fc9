import {frame, h, Screen} from './dom.js';
import {flat} from './text.js';

const ns = 'http://www.w3.org/2000/svg';

/** @param {string} tag @param {Record<string, any>} attrs @param {...(Node|string)} kids */
function s(tag, attrs, ...kids) {
  const el = document.createElementNS(ns, tag);
  for (const [k, v] of Object.entries(attrs)) el.setAttribute(k, flat(String(v)));
  el.append(...kids);
  return el;
}

/**
 * @typedef {{name: string, values: (number|null)[], lower?: boolean[]}} Series null: not known
 * @typedef {{kind: 'lines'|'areas'|'bars', title: string, x: string[], series: Series[], say: (v: number|null) => string, source: (i: number, k: number) => string}} Data
 * source: what the value of series k at step i was made of; k is -1 for all series
 */

/**
 * A chart: lines, stacked areas or stacked bars over steps, with the values at the pointer, at the arrow keys, and as a
 * table. Each value leads to what it was made of, by a click or Enter. A value that is not known is a gap with a mark, and never 0.
 */
class Chart extends Screen {
  /** @type {Data|undefined} */ d;
  key = '';

  /** @param {Data} data */
  set data(data) {
    this.d = data;
    if (this.isConnected) this.draw();
  }

  begin() {
    const redraw = () => {
      if (this.alive) this.draw();
    };
    this.seer = new ResizeObserver(() => frame(redraw));
    this.seer.observe(this);
    this.life.signal.addEventListener('abort', () => this.seer?.disconnect());
    if (this.d) this.draw();
  }

  draw() {
    const d = this.d;
    if (!d || this.clientWidth === 0) return;
    const w = this.clientWidth, hgt = 220, left = 56, bottom = 22, top = 8, right = 8, n = d.x.length;
    const key = w + JSON.stringify([d.kind, d.x, d.series]);
    if (key === this.key) return;
    this.key = key;
    const totals = d.x.map((_, i) => d.series.reduce((t, x) => t + (x.values[i] ?? 0), 0));
    const high = ceiling(d.kind === 'lines' ? Math.max(0, ...d.series.flatMap((x) => x.values.map((v) => v ?? 0))) : Math.max(0, ...totals));
    const step = (w - left - right) / Math.max(1, n);
    const X = (/** @type {number} */ i) => left + step * (i + .5), Y = (/** @type {number} */ v) => top + (hgt - top - bottom) * (1 - v / high);
    const svg = s('svg', {width: w, height: hgt, viewBox: `0 0 ${w} ${hgt}`, role: 'img', 'aria-label': d.title + '. Arrow keys tell the values, Enter leads to what they were made of; the table below has all of them.', tabindex: 0});
    for (let i = 0; i <= 4; i++) {
      const v = high * i / 4;
      svg.append(s('line', {x1: left, x2: w - right, y1: Y(v), y2: Y(v), class: 'grid'}), s('text', {x: left - 6, y: Y(v) + 4, class: 'axis end'}, d.say(v)));
    }
    const every = Math.ceil(n / Math.max(1, Math.floor((w - left) / 90)));
    d.x.forEach((x, i) => i % every === 0 && svg.append(s('text', {x: X(i), y: hgt - 6, class: 'axis middle'}, flat(x))));
    const base = d.x.map(() => 0);
    d.series.forEach((x, k) => {
      const tone = 'c' + k % 8;
      if (d.kind === 'bars') {
        x.values.forEach((v, i) => {
          if (!v) return;
          svg.append(s('rect', {x: X(i) - Math.min(step * .38, 24), width: Math.min(step * .76, 48), y: Y(base[i] + v), height: Math.max(.5, Y(base[i]) - Y(base[i] + v)), class: tone, 'data-k': k}));
          base[i] += v;
        });
      } else if (d.kind === 'areas') {
        const upper = x.values.map((v, i) => base[i] + (v ?? 0));
        svg.append(s('path', {d: 'M' + upper.map((v, i) => `${X(i)},${Y(v)}`).join('L') + 'L' + base.map((v, i) => `${X(i)},${Y(v)}`).reverse().join('L') + 'Z', class: tone + ' area', 'data-k': k}));
        upper.forEach((v, i) => base[i] = v);
      } else {
        let path = '';
        x.values.forEach((v, i) => v !== null && (path += `${i > 0 && x.values[i - 1] !== null ? 'L' : 'M'}${X(i)},${Y(v)}`));
        svg.append(s('path', {d: path, class: tone + ' line', 'data-k': k}));
      }
    });
    // What is not known, at least in part.
    d.x.forEach((_, i) => {
      const unknown = d.series.some((x) => x.values[i] === null || x.lower?.[i]);
      if (unknown) svg.append(s('text', {x: X(i), y: Math.min(Y(d.kind === 'lines' ? 0 : totals[i]) - 4, hgt - bottom - 4), class: 'axis middle unknown'}, '?'));
    });
    const cursor = s('line', {y1: top, y2: hgt - bottom, class: 'cursor', visibility: 'hidden'});
    svg.append(cursor);
    const tip = h('div.tip', {role: 'status'});
    let at = -1;
    const value = (/** @type {Series} */ x, /** @type {number} */ i) => (x.lower?.[i] && x.values[i] !== null ? '≥ ' : '') + d.say(x.values[i]);
    /** @param {number} k @param {...(Node|string)} kids */
    const link = (k, ...kids) => h('a', {href: d.source(at, k), 'data-k': k}, kids);
    const show = (/** @type {number} */ i) => {
      at = Math.max(0, Math.min(n - 1, i));
      cursor.setAttribute('x1', String(X(at)));
      cursor.setAttribute('x2', String(X(at)));
      cursor.setAttribute('visibility', 'visible');
      tip.replaceChildren(link(-1, h('b', null, d.x[at])), ...d.series.flatMap((x, k) => x.values[at] === 0 && !x.lower?.[at] ? [] : [link(k, h('i.key.c' + k % 8), x.name, ' ', h('b', null, value(x, at)))]).slice(0, 12));
    };
    /** @param {number} k */
    const follow = (k) => {
      const links = tip.querySelectorAll('a');
      if (links.length > 1) (tip.querySelector(`[data-k="${k}"]`) ?? links[links.length === 2 ? 1 : 0]).click(); // else there is nothing
    };
    if (n) {
      const under = (/** @type {MouseEvent} */ e) => show(Math.floor((e.clientX - svg.getBoundingClientRect().left - left) / step));
      svg.addEventListener('pointermove', under);
      svg.addEventListener('click', (e) => {
        under(e);
        follow(Number(/** @type {SVGElement} */ (e.target).dataset.k ?? NaN));
      });
      svg.addEventListener('keydown', (e) => {
        if (/** @type {KeyboardEvent} */ (e).key === 'Enter' && at >= 0) follow(NaN);
        const by = {ArrowRight: 1, ArrowLeft: -1, Home: -n, End: n}[/** @type {KeyboardEvent} */ (e).key];
        if (!by) return;
        show(at < 0 && by === -1 ? n - 1 : at + by);
        e.preventDefault();
      });
    }
    const focused = this.contains(document.activeElement) && document.activeElement?.tagName === 'svg';
    this.replaceChildren(svg, tip, h('ul.legend', null, d.series.map((x, k) => h('li', null, h('i.key.c' + k % 8), x.name))),
      h('details', null, h('summary', null, 'As a table'), h('div.scroll', {tabindex: '0', role: 'region', 'aria-label': d.title}, h('table.plainrows', null, h('thead', null, h('tr', null, h('th', null, ''), d.series.map((x) => h('th.num', null, x.name)))),
        h('tbody', null, d.x.map((x, i) => h('tr', null, h('th', {scope: 'row'}, x), d.series.map((y, k) => h('td.num', null, y.values[i] === 0 && !y.lower?.[i] ? d.say(0) : h('a', {href: d.source(i, k)}, value(y, i)))))))))));
    if (focused) /** @type {any} */ (svg).focus();
  }
}

/** A line of bars without axes, as large as a word. @param {number[]} values @param {string} says */
export function spark(values, says) {
  const w = 72, hgt = 16, high = Math.max(...values, 1e-12), step = w / values.length;
  const svg = s('svg', {width: w, height: hgt, viewBox: `0 0 ${w} ${hgt}`, role: 'img', 'aria-label': says, class: 'sparkline'});
  svg.append(...values.map((v, i) => v > 0 ? s('rect', {x: i * step, width: Math.max(1, step - 1), y: hgt - Math.max(1.5, hgt * v / high), height: Math.max(1.5, hgt * v / high)}) : s('rect', {x: i * step, width: Math.max(1, step - 1), y: hgt - 1, height: 1, class: 'none'})));
  return svg;
}

/** The least round number that is not below v. @param {number} v */
function ceiling(v) {
  if (v <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(v));
  return /** @type {number} */ ([1, 2, 2.5, 4, 5, 8, 10].find((m) => m * unit >= v * (1 - 1e-9))) * unit;
}

customElements.define('sl-chart', Chart);
