package webtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// show opens the question of a loop.
func (b *tab) show(q question) {
	b.t.Helper()
	b.visit("/questions/" + q.ID)
	b.until("the question is shown", `document.querySelector('.answer')`)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func journal(t *testing.T, repo, id string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repo, ".superloop", "loops", id, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A command is approved by a click, runs once, and the loop goes on to its end, while the tab looks.
func TestApprove(t *testing.T) {
	w := begin(t)
	repo := w.loop(t, spec{repo: "approve", id: "approve", proposal: proposes("touch ok")})
	q := asks(t, repo, "approve")
	b := open(t).enter(w)
	b.until("the overview has the question", `document.querySelector('.needs a[href="/questions/' + %s + '"]')`, q.ID)
	b.show(q)
	for _, part := range []string{"May this command run?", "touch ok", "the index is older than what it indexes", repo, "mytool: the index is stale", "touch okay"} {
		if !strings.Contains(b.text("main"), part) {
			t.Errorf("the question does not show %q:\n%s", part, b.text("main"))
		}
	}
	if said := b.text(".confirm"); said != "Run once: touch ok" {
		t.Errorf("the button says %q", said)
	}
	b.click(".confirm", "Run once")
	b.until("the answer is shown", `/by/i.test(document.querySelector('.answer.over')?.innerText)`)
	until(t, "it completes", func() bool { return state(repo, "approve") == "completed" })
	if n := strings.Count(journal(t, repo, "approve"), `"event":"recovery_executing"`); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	b.visit("/")
	b.until("the overview says so", `[...document.querySelectorAll('.loops tr')].some((r) => r.innerText.includes('approve') && r.innerText.includes('completed'))`)
}

// The other answers. What needs a person at a terminal asks for the code of superloop confirm.
func TestAnswers(t *testing.T) {
	w := begin(t)
	b := open(t).enter(w).expect("403")
	for _, id := range []string{"reject", "choose", "edit"} {
		w.loop(t, spec{repo: id, id: id, proposal: proposes("touch theirs"), iterations: 2})
	}
	repo := filepath.Join(w.root, "reject")
	b.show(asks(t, repo, "reject"))
	b.click("input[name=way]", "Reject")
	eval[bool](b, `(() => { const n = document.querySelector('.answer input[type=text]'); n.value = 'not this one'; return true; })()`)
	b.click(".confirm", "Do not run: touch theirs")
	b.until("it is rejected", `document.querySelector('.answer.over')?.innerText.includes('Rejected')`)
	until(t, "the loop has gone on", func() bool { return strings.Contains(journal(t, repo, "reject"), `"note":"not this one"`) })
	if exists(filepath.Join(repo, "theirs")) {
		t.Error("what was rejected ran")
	}

	repo = filepath.Join(w.root, "choose")
	b.show(asks(t, repo, "choose"))
	b.click("input[name=way]", "Another option")
	b.click(".confirm", "Run once: ./refresh")
	until(t, "the option ends the loop", func() bool { return state(repo, "choose") == "completed" })

	repo = filepath.Join(w.root, "edit")
	b.show(asks(t, repo, "edit"))
	b.click("input[name=way]", "My own command")
	eval[bool](b, `(() => { const a = document.querySelector('.answer textarea'); a.value = 'touch ok'; a.dispatchEvent(new Event('input')); return true; })()`)
	b.click(".confirm", "Run once: touch ok")
	b.until("a code is asked for", `document.querySelector('dialog[open] input.code')`)
	eval[bool](b, `(() => { document.querySelector('dialog[open] input.code').value = %s; return true; })()`, w.confirm(t))
	b.click("dialog[open] button.strong", "Go on")
	b.until("it is answered", `document.querySelector('.answer.over')?.innerText.includes('touch ok')`)
	until(t, "the edited command ends the loop", func() bool { return state(repo, "edit") == "completed" })
	if exists(filepath.Join(repo, "theirs")) {
		t.Error("the proposed command ran")
	}
}

var codeForm = regexp.MustCompile(`[0-9A-Z]{4}-[0-9A-Z]{4}`)

// confirm types superloop confirm on a terminal, and yes to all that it asks. It returns the code of the newest request.
func (w *world) confirm(t *testing.T) string {
	t.Helper()
	c := exec.Command("script", "-qec", "'"+w.bin+"' confirm", os.DevNull)
	c.Env, c.Dir, c.Stdin = w.env, w.root, strings.NewReader(strings.Repeat("y\n", 20))
	out, err := c.CombinedOutput()
	codes := codeForm.FindAllString(string(out), -1)
	if len(codes) == 0 {
		t.Fatalf("superloop confirm: %v\n%s", err, out)
	}
	return codes[len(codes)-1]
}

// Of two people one is first; the other is told who it was. An answer to what was not shown does not count.
func TestTwoTabs(t *testing.T) {
	w := begin(t)
	repo := w.loop(t, spec{repo: "two", id: "two", proposal: proposes("touch ok")})
	q := asks(t, repo, "two")
	one, two := open(t).enter(w), open(t).enter(w).expect("409")
	one.show(q)
	two.show(q)

	eval[bool](two, `(() => { document.querySelector('sl-question').q.digest = '0'.repeat(64); return true; })()`)
	two.click(".confirm", "Run once")
	two.until("it is told that the question is another one", `/look at it again/.test(document.querySelector('.banner')?.innerText)`)
	if now := asks(t, repo, "two"); now != q {
		t.Fatalf("the answer counted: %v", now)
	}

	// Both send at the same moment: the second tab is held back from hearing of the first answer.
	eval[bool](two, `(() => { const s = document.querySelector('sl-question'); s.held = s.load; s.load = async (n) => n && s.held.call(s, n); return true; })()`)
	one.click(".confirm", "Run once")
	one.until("the first one counts", `document.querySelector('.answer.over')`)
	two.click("input[name=way]", "Reject")
	two.click(".confirm", "Do not run")
	two.until("the second one is told by whom", `/does not count/.test(document.querySelector('.banner')?.innerText) && /cli:/.test(document.querySelector('.banner').innerText)`)
	until(t, "it completes", func() bool { return state(repo, "two") == "completed" })
	if n := strings.Count(journal(t, repo, "two"), `"event":"recovery_executing"`); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}
