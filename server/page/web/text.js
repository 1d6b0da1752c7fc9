// The one place where foreign text becomes something to look at. What agents and tools write is hostile: it may hold
// characters that act on the page, move other text, or cannot be seen. Each of them is shown by its number, in a frame
// that no text can imitate. Nothing here makes HTML: the results are strings for text nodes, and elements without attributes
// of foreign origin.

const plain = /^[\x20-\x7e\n]*$/;
const graphic = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;
const unseen = /^[\p{DI}\u2800\u2065]$/u;
const mark = /^\p{M}$/u;

// How many combining marks in a row stand as they are. More of them reach over the lines around.
const mostAccents = 4;

/** The number of a character, as the command line writes it. @param {string} c */
export function number(c) {
  return 'U+' + (c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
}

/** @param {string} label */
function frame(label) {
  const el = document.createElement('span');
  el.className = 'mark';
  el.textContent = label;
  return el;
}

/**
 * Text to read: letters, digits and signs of all scripts stay; what an eye does not see becomes its number. Newlines and
 * tabs stay if lines is set, else they become a blank.
 * @param {string} s @param {boolean} [lines] @returns {(string|Node)[]}
 */
export function show(s, lines) {
  if (plain.test(s)) return [lines ? s : s.replaceAll('\n', ' ')];
  /** @type {(string|Node)[]} */
  const out = [];
  let run = '', accents = 0;
  for (const c of s) {
    accents = mark.test(c) ? accents + 1 : 0;
    if (c === '\n' || c === '\t') run += lines ? c : ' ';
    else if (graphic.test(c) && !unseen.test(c) && accents <= mostAccents) run += c;
    else {
      if (run) out.push(run);
      run = '';
      out.push(frame(number(c)));
    }
  }
  if (run) out.push(run);
  return out;
}

/** Text for an attribute such as a title, where nothing can be framed. @param {string} s */
export function flat(s) {
  return show(s).map((n) => typeof n === 'string' ? n : `<${n.textContent}>`).join('');
}

const marks = /<(U\+[0-9A-F]{4,6}|0x[0-9A-F]{2}|newline|tab|\d+ (?:blanks|newlines))>/g;

/**
 * A command for somebody who decides about it. display is its form of text.Display: printable ASCII, in which each other
 * character is a mark such as <U+200B>. The marks get frames; a line ends where the command has a newline.
 * @param {string} display @returns {(string|Node)[]}
 */
export function command(display) {
  /** @type {(string|Node)[]} */
  const out = [];
  let at = 0;
  for (const m of display.matchAll(marks)) {
    out.push(...show(display.slice(at, m.index)), frame(m[1]));
    if (m[1].endsWith('newline') || m[1].endsWith('newlines')) out.push('\n');
    at = m.index + m[0].length;
  }
  out.push(...show(display.slice(at)));
  return out;
}

// A select-graphic-rendition of a terminal, and every other control sequence.
const sgr = /\x1b\[([0-9;]*)m/g;
const control = /\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)/g;

/**
 * The output of a program: colours by class, other control sequences left out, as on a terminal that does nothing else.
 * @param {string} s @returns {(string|Node)[]}
 */
export function output(s) {
  /** @type {(string|Node)[]} */
  const out = [];
  let at = 0, tone = '';
  /** @param {string} piece */
  const put = (piece) => {
    const nodes = show(piece.replace(control, '').replaceAll('\r\n', '\n'), true);
    if (!tone) {
      out.push(...nodes);
      return;
    }
    const el = document.createElement('span');
    el.className = tone;
    el.append(...nodes);
    out.push(el);
  };
  for (const m of s.matchAll(sgr)) {
    put(s.slice(at, m.index));
    at = m.index + m[0].length;
    for (const n of m[1].split(';').map(Number)) {
      if (n === 0 || n === 39) tone = '';
      else if (n >= 30 && n <= 37) tone = 'a' + (n - 30);
      else if (n >= 90 && n <= 97) tone = 'a' + (n - 90);
    }
  }
  put(s.slice(at));
  return out;
}
