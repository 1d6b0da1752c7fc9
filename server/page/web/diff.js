import {h} from './dom.js';
import {show} from './text.js';

// Lines of a diff that are shown at once; more come with a button.
const most = 3000;

/** A diff in the form of diff -u, as lines with their tone. @param {string} text */
export function diffLines(text) {
  const lines = text.replace(/\n$/, '').split('\n');
  const box = h('pre.diff', {tabindex: '0', 'aria-label': 'Differences'});
  let at = 0;
  const more = () => {
    const part = document.createDocumentFragment();
    for (const line of lines.slice(at, at + most)) {
      const tag = line.startsWith('+++') || line.startsWith('---') || line.startsWith('diff ') ? 'b' : line[0] === '+' ? 'ins' : line[0] === '-' ? 'del' : line.startsWith('@@') ? 'i' : 'span';
      const el = document.createElement(tag);
      el.append(...show(line.length > 4000 ? line.slice(0, 4000) + ' …' : line, true), '\n');
      part.append(el);
    }
    at += most;
    box.append(part);
    if (at < lines.length) {
      const button = h('button', {type: 'button', onclick: () => {
        button.remove();
        more();
      }}, `${lines.length - at} more lines`);
      box.append(button);
    }
  };
  more();
  return box;
}
