package page

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/result"
)

var update = flag.Bool("update", false, "write the golden file")

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func after(minutes float64) time.Time {
	return began.Add(time.Duration(minutes * float64(time.Minute)))
}

// small is a run with one iteration.
func small() result.Result {
	return result.Result{LoopID: "demo", RunID: "r1", Version: "1.2", Plan: loop.Plan{Roles: []string{"implementer", "reviewer"}, SpecFile: "spec.md"}, Status: loop.Completed,
		Started: began, Updated: after(3), Ended: after(3), ActiveMS: 180_000,
		Iterations: []result.Iteration{{N: 1, From: began, To: after(3), Complete: true, Gates: []result.Gate{{Name: "promise", Verdict: "true"}, {Name: "tests", Verdict: "ok"}, {Name: "evidence", Verdict: "skipped"}},
			Roles: []result.RoleRun{{Role: "implementer", Runner: "claude", Attempt: 1, From: began, To: after(1), Outcome: "ok", DurationMS: 60_000, CostUSD: new(0.25), Tokens: new(int64(1200))},
				{Role: "reviewer", Runner: "codex", Attempt: 2, From: after(1.5), To: after(2), Outcome: "exit", Error: "no luck", DurationMS: 30_000}},
			Tests: []result.TestRun{{Commands: []string{"npm test"}, Reason: "iteration", Status: "ok", At: after(2), DurationMS: 1500}}}},
		Recoveries: []result.Recovery{{N: 1, Iteration: 1, At: after(1), Source: "tester", Category: "dependency", Command: "npm ci", Verdict: "auto", Rule: "auto_approve", Reason: "it is listed", By: "rule",
			RootCause: "an old package", Evidence: []string{"test-output.txt:3: Host version"}, Outcome: "verified", DurationMS: 900}},
		Questions: []result.Question{{ID: "q", Type: "role_failure", About: "gone", Iteration: 1, At: after(1), Answered: after(2), Answer: "approve", By: "cli:ann", Note: "go on"}},
		Work:      result.Work{Branch: "superloop/demo", Own: true, Changes: []result.Change{{Path: "a.go", Kind: result.Added, Plus: 3, Minus: 0}, {Path: "logo.png", Kind: result.Changed, Plus: -1, Minus: -1}}, Review: "Fine.\n"}}
}

func written(t testing.TB, r result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r, after(4)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPageIsGolden(t *testing.T) {
	t.Parallel()
	got := written(t, small())
	const file = "testdata/small.html"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%v: the page is another one; -update writes it", err)
	}
}

// walk calls do for each element of a page.
func walk(t testing.TB, page string, do func(n *html.Node)) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			do(n)
		}
	}
}

// A page has the same elements whatever agents wrote, no script, no style in an element and nothing to load.
func TestHostileTextMakesNoElement(t *testing.T) {
	t.Parallel()
	elements := func(t testing.TB, r result.Result) string {
		var list []string
		walk(t, written(t, r), func(n *html.Node) {
			list = append(list, n.Data)
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" || a.Key == "style" || a.Key == "srcset" {
					t.Fatalf("%s has %s", n.Data, a.Key)
				}
			}
		})
		return strings.Join(list, " ")
	}
	with := func(s string) result.Result {
		r := small()
		r.LoopID, r.RunID, r.Version, r.Detail = s, s, s, s
		r.Status, r.Plan.SpecFile = loop.Status(s), s
		i := &r.Iterations[0]
		i.Gates[0] = result.Gate{Name: s, Verdict: s}
		i.Why, i.Note = []string{s}, s
		i.Roles[0].Role, i.Roles[0].Runner, i.Roles[0].Model, i.Roles[0].Outcome, i.Roles[0].Error = s, s, s, s, s
		i.Tests[0] = result.TestRun{Commands: []string{s}, Reason: s, Status: s, Failed: s, At: began}
		r.Recoveries[0] = result.Recovery{N: 1, Source: s, Category: s, Command: s, Verdict: s, Rule: s, Reason: s, By: s, RootCause: s, Evidence: []string{s}, Outcome: s, DurationMS: 1}
		r.Questions[0] = result.Question{Type: s, Role: s, About: s, Answer: s, By: s, Note: s}
		r.Commits = []result.Commit{{SHA: s, Subject: s}}
		r.Work = result.Work{Branch: s, Changes: []result.Change{{Path: s, Kind: s}}, Review: s}
		return r
	}
	want := elements(t, with("x"))
	if strings.Contains(want, "script") {
		t.Error("there is a script")
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := "x" + rapid.StringOf(rapid.SampledFrom([]rune("<>\"'`&;/=!-{}() \n\x1b\u202eascriptonload"))).Draw(rt, "text")
		if rapid.Bool().Draw(rt, "known") {
			s = "x" + rapid.SampledFrom([]string{"</style><script>alert(1)</script>", "</title><img src=x onerror=alert(1)>", "</pre></main>", "<!--", "]]>", "\"><svg onload=x>"}).Draw(rt, "attack")
		}
		if got := elements(t, with(s)); got != want {
			rt.Fatalf("%q makes\n%s\nnot\n%s", s, got, want)
		}
	})
}

func TestPageSaysWhatItForbids(t *testing.T) {
	t.Parallel()
	policy := ""
	walk(t, written(t, small()), func(n *html.Node) {
		for i, a := range n.Attr {
			if n.Data == "meta" && a.Val == "Content-Security-Policy" {
				policy = n.Attr[i+1].Val
			}
		}
	})
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") {
		t.Errorf("%q", policy)
	}
}

// A run without figures, and one with very many iterations, has a page.
func TestPageOfOddRuns(t *testing.T) {
	t.Parallel()
	if page := written(t, result.Result{LoopID: "l", Status: loop.Running, Started: began, Updated: began}); strings.Contains(page, "<svg") {
		t.Error("a plot of nothing")
	}
	r := small()
	for n := 2; n <= maxIterations+5; n++ {
		i := r.Iterations[0]
		i.N = n
		r.Iterations = append(r.Iterations, i)
	}
	page := written(t, r)
	if strings.Count(page, "<h3>Iteration ") != maxIterations || !strings.Contains(page, "<b>Iterations</b>205") || !strings.Contains(page, "5 earlier iterations are not shown") {
		t.Error("the iterations are not bounded")
	}
}

func TestAxesAreRound(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0.0003: "0.0005", 0.25: "0.5", 1: "1", 1.01: "2", 4: "5", 7: "10", 100: "100"} {
		if got := fmt.Sprint(nice(v)); got != want {
			t.Errorf("nice(%v) is %s, want %s", v, got, want)
		}
	}
}
