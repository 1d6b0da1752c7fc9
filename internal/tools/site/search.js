// The search of the documentation: every part of a page that holds all words, those with the words in the title first.
// index.js, which holds the text of all pages, is loaded when somebody begins to search.
"use strict";
const form = document.querySelector("form"), field = document.querySelector("#search"), results = document.querySelector("#results");
form.hidden = false;
let loading;
const load = () => loading ??= new Promise((done, failed) => {
  const script = document.createElement("script");
  script.src = "index.js";
  script.onload = done;
  script.onerror = failed;
  document.head.append(script);
});

function element(name, text) {
  const e = document.createElement(name);
  e.textContent = text;
  return e;
}

function find(words) {
  const hits = [];
  for (const part of window.parts) {
    const title = (part.title + " " + part.page).toLowerCase(), text = part.text.toLowerCase();
    if (!words.every((w) => title.includes(w) || text.includes(w))) continue;
    hits.push({ part, rank: words.filter((w) => part.title.toLowerCase().includes(w)).length });
  }
  return hits.sort((a, b) => b.rank - a.rank);
}

function excerpt(text, words) {
  const at = Math.max(0, ...words.map((w) => text.toLowerCase().indexOf(w)));
  const from = Math.max(0, at - 60);
  return (from ? "... " : "") + text.slice(from, from + 200) + (text.length > from + 200 ? " ..." : "");
}

async function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = !words.length;
  if (!words.length) return;
  try {
    await load();
  } catch {
    results.replaceChildren(element("p", "The list for the search, index.js, could not be loaded."));
    return;
  }
  const hits = find(words), list = document.createElement("ol");
  for (const { part } of hits.slice(0, 30)) {
    const link = element("a", part.title === part.page ? part.title : `${part.page}: ${part.title}`), item = document.createElement("li");
    link.href = part.href;
    link.onclick = () => { results.hidden = true; };
    item.append(link, element("p", excerpt(part.text, words)));
    list.append(item);
  }
  results.replaceChildren(element("p", hits.length > 30 ? `The first 30 of ${hits.length}:` : hits.length === 1 ? "1 place:" : `${hits.length} places:`), list);
}

field.addEventListener("input", search);
form.addEventListener("submit", (e) => { e.preventDefault(); results.querySelector("a")?.click(); });
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && document.activeElement !== field) { e.preventDefault(); field.focus(); }
  if (e.key === "Escape") { field.value = ""; results.hidden = true; }
});
