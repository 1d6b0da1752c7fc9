package webtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// seed is what everything random of a run follows from.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	s := cmp.Or(os.Getenv("SUPERLOOP_WEBTEST_SEED"), fmt.Sprint(rand.Uint64()))
	t.Logf("the same again: SUPERLOOP_WEBTEST_SEED=%s", s)
	var n uint64
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatalf("SUPERLOOP_WEBTEST_SEED=%s: %v", s, err)
	}
	return rand.New(rand.NewPCG(n, n))
}

// Two people in two browsers and one at a terminal answer the same question at the same moment, each something else: one
// answer counts, and the other two are told whose it was and what it said.
func TestThreeAnswerAtOnce(t *testing.T) {
	w := begin(t)
	r := seed(t)
	// Each browser has a session, and a worker, of its own.
	browsers := []*tab{open(t).enter(w).expect("409"), openAlone(t).enter(w).expect("409")}
	rounds := 3
	if all() {
		rounds = 20
	}
	ways := []struct{ method, label, confirm, verb string }{{"approve", "Approve, once", "Run once", "approve-recovery"}, {"reject", "Reject", "Do not run", "reject-recovery"}, {"manual", "by hand", "done by hand", "resolve-recovery"}}
	won := map[string]int{}
	for n := range rounds {
		id := fmt.Sprintf("three-%d", n)
		repo := w.loop(t, spec{repo: id, id: id, proposal: proposes("touch theirs"), iterations: 2})
		q := asks(t, repo, id)
		r.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
		for i, b := range browsers {
			b.show(q)
			b.click("input[name=way]", ways[i].label)
			b.until("the button says so", `document.querySelector('.confirm').innerText.includes(%s)`, ways[i].confirm)
			eval[bool](b, `(() => { document.querySelector('.answer input[type=text]').value = %s; return true; })()`, fmt.Sprintf("browser %d", i+1))
		}
		// At a moment that all know, and up to 60 ms later.
		at := time.Now().Add(400 * time.Millisecond)
		for _, b := range browsers {
			eval[bool](b, `(() => { setTimeout(() => document.querySelector('.confirm')?.click(), Math.max(0, %s - Date.now())); return true; })()`, at.UnixMilli()+r.Int64N(60))
		}
		// The verb needs some time until it answers.
		<-time.After(time.Until(at.Add(time.Duration(r.Int64N(200)-60) * time.Millisecond)))
		line := fmt.Sprintf("'%s' %s --repo '%s' --loop %s --id %s --digest %s --note terminal", w.bin, ways[2].verb, repo, id, q.ID, q.Digest)
		c := exec.Command("script", "-qec", line, os.DevNull)
		c.Env, c.Dir, c.Stdin = w.env, w.root, strings.NewReader("y\n")
		said, err := c.CombinedOutput()
		names := []string{"browser 1", "browser 2", "terminal"}
		var notes []string
		until(t, "an answer is in the journal", func() bool {
			notes = answered.FindAllString(journal(t, repo, id), -1)
			return len(notes) > 0
		})
		winner := slices.IndexFunc(names, func(s string) bool { return strings.Contains(notes[0], `"`+s+`"`) })
		if winner < 0 || len(notes) != 1 {
			t.Fatalf("round %d: %d answers count: %q", n, len(notes), notes)
		}
		won[names[winner]]++
		if (err == nil) != (winner == 2) {
			t.Errorf("round %d, won by %s: the terminal: %v\n%s", n, names[winner], err, said)
		}
		words := map[string]string{"approve": "(?i)approved|it ran|runs now", "reject": "(?i)rejected", "manual": "(?i)by hand|resolved"}
		if winner != 2 && !(strings.Contains(string(said), "already decided: "+strings.Replace(ways[winner].method, "manual", "resolve", 1)) && strings.Contains(string(said), "by ")) {
			t.Errorf("round %d, won by %s: the terminal is not told: %s", n, names[winner], said)
		}
		for i, b := range browsers {
			b.until("the answer is shown", `document.querySelector('.answer.over')`)
			b.until("it says by whom, and what", `/By\s+\S+/.test(document.querySelector('.answer.over').innerText) && RegExp(%s, 'i').test(document.querySelector('.answer.over').innerText)`, strings.TrimPrefix(words[ways[winner].method], "(?i)"))
			told := b.text(".banner")
			if i == winner && told != "" {
				t.Errorf("round %d: the winner reads %q", n, told)
			}
			if i != winner && !(strings.Contains(told, "by ") && regexp.MustCompile(words[ways[winner].method]+"|"+ways[winner].method).MatchString(told)) {
				t.Errorf("round %d, won by %s: browser %d reads %q", n, names[winner], i+1, told)
			}
		}
		if ran := strings.Count(journal(t, repo, id), `"event":"recovery_executing"`); ran > 1 || ways[winner].method != "approve" && ran > 0 {
			t.Errorf("round %d: %s won, and it ran %d times", n, ways[winner].method, ran)
		}
		if ways[winner].method != "approve" && exists(filepath.Join(repo, "theirs")) {
			t.Errorf("round %d: it ran", n)
		}
		w.verb(t, "stop", "--repo", repo, "--loop", id)
	}
	t.Logf("%d rounds, won by %v", rounds, won)
}

var answered = regexp.MustCompile(`"event":"recovery_resolved"[^\n]*`)
