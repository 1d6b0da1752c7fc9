package webtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostile are texts that would be more than text, if something took them for that.
var hostile = []string{
	`<img src=x onerror="window.hit=1">`, `</code><script>window.hit=1</script>`, `"><svg onload=window.hit=1>`, `<a href="javascript:window.hit=1">click</a>`,
	`<iframe srcdoc="<script>parent.hit=1</script>">`, `<style>*{display:none}</style>`, `<base href=//evil.example>`, `{{constructor.constructor('window.hit=1')()}}`,
	"a\u202eb\u2066c\u200bd\u00a0e", "\x1b[31mred\x1b]0;title\x07\x1b[2J", "z\u0300\u0301\u0302\u0303\u0304\u0305\u0306algo", "\ufeff\u2028\u2029\u00ad", "&lt;b&gt;&#0;&nbsp;", "' onmouseover='window.hit=1", "%3Cscript%3E", strings.Repeat("W", 3000), "\U000e0041\U000e0042 tags", "\u2800\u3164blank",
}

// look reports what is no text in the page.
const onlyText = `(() => {
  const wrong = [];
  if (window.hit) wrong.push('a script ran');
  const fine = new Set('A ABBR B BODY BUTTON CODE DD DEL DETAILS DIALOG DIV DL DT FIELDSET FORM H1 H2 H3 HEADER I INPUT INS KBD LABEL LEGEND LI MAIN NAV NOSCRIPT OL OPTION P PRE SECTION SELECT SPAN SUMMARY TABLE TBODY TD TEXTAREA TH THEAD TIME TR UL svg g line path rect text'.split(' '));
  for (const e of document.body.querySelectorAll('*')) {
    if (!fine.has(e.tagName) && !e.tagName.startsWith('SL-')) wrong.push('an element ' + e.tagName);
    for (const a of e.attributes) {
      if (/^on|^srcdoc|^formaction|^xlink/i.test(a.name)) wrong.push('an attribute ' + a.name);
      if (a.name === 'href' && !/^[\/#]/.test(a.value) && !a.value.startsWith('blob:')) wrong.push('a link to ' + a.value);
      if (/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff]/.test(a.value) && a.name !== 'value') wrong.push('a hidden character in ' + a.name);
    }
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    if (n.parentElement.closest('textarea, option')) continue;
    if (/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff]/.test(n.data)) wrong.push('a hidden character in ' + n.parentElement.tagName + '.' + n.parentElement.className);
  }
  if (document.querySelectorAll('head *').length !== window.heads) wrong.push('the head has changed');
  return wrong;
})()`

// What agents, tests and names of files say is text on every screen, whatever it holds.
func TestHostileTexts(t *testing.T) {
	w := begin(t)
	texts := hostile
	if !all() {
		texts = hostile[:11]
	}
	joined := strings.Join(texts, " ")
	line := func(i int) string { return texts[i%len(texts)] }
	p := proposes("echo " + strings.Join(texts[:4], " ") + " '" + texts[8] + "' && rm \u202etxt.exe")
	p["category"] = "environment"
	p["diagnosis"] = map[string]any{"error_pattern": line(2), "root_cause": joined, "evidence": texts}
	p["recovery"].(map[string]any)["expected_outcome"] = line(0) + line(8)
	repo := w.loop(t, spec{repo: `<img src=x onerror=hit=1> "'&` + "\u202e", id: "hostile", branch: `<svg/onload=hit=1>` + "\u200b", proposal: p,
		says: joined + "\n" + fmt.Sprintf(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":%q}]},"session_id":"x"}`, joined)})
	q := asks(t, repo, "hostile")
	if err := os.WriteFile(filepath.Join(repo, texts[0][:4]+"\u202e.txt"), []byte(joined+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.verb(t, "note", "--repo", repo, "--loop", "hostile", joined)
	b := open(t).enter(w).expect("409")
	eval[int](b, `window.heads = document.querySelectorAll('head *').length`)
	eval[bool](b, `(addEventListener('securitypolicyviolation', (e) => console.error('policy: ' + e.violatedDirective)), true)`)
	look := func(where string) {
		t.Helper()
		for _, wrong := range eval[[]string](b, onlyText) {
			t.Errorf("%s: %s", where, wrong)
		}
	}
	href := eval[string](b, `new Promise((ok) => { const f = () => { const a = [...document.querySelectorAll('.loops a[data-row]')].find((x) => x.innerText === 'hostile'); a ? ok(a.getAttribute('href')) : setTimeout(f, 50); }; f(); })`)
	look("overview")
	b.show(q)
	look("question")
	if said := b.text("pre.command"); !strings.Contains(said, "<img src=x") || !strings.Contains(said, "U+202E") {
		t.Errorf("the command is shown as %q", said)
	}
	if said := b.text(".confirm"); !strings.Contains(said, "U+202E") {
		t.Errorf("the button says %q", said)
	}
	for tab, ready := range map[string]string{"log": `document.querySelector('.items li')`, "timeline": `document.querySelector('.timeline tbody tr')`, "gates": `document.querySelector('#panel table')`, "diff": `document.querySelector('pre.diff')`, "events": `document.querySelector('.events li')`} {
		b.visit(href + "#" + tab)
		b.until(tab+" is shown", ready)
		look(tab)
	}
	b.visit(href + "#log")
	b.until("the log is shown", `document.querySelector('.items li')`)
	b.click("input[type=checkbox]", "as it was recorded")
	b.until("the recorded log is shown", `document.querySelector('#panel pre.out')`)
	look("recorded log")
	for _, path := range []string{"/remediation", "/agents", "/cost?by=repo", "/cost?by=loop", "/policy", "/settings"} {
		b.visit(path)
		b.until(path+" is shown", `document.querySelector('main h1') && !/Reading/.test(document.querySelector('main').innerText)`)
		look(path)
	}
	// In a question of a filter, and in the address.
	b.visit("/?q=" + `%3Cimg%20src%3Dx%20onerror%3Dhit%3D1%3E`)
	look("filter")
	b.visit("/loops/" + `%3Cimg%20src%3Dx%3E`)
	look("a loop that is none")
}
