package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/markdown"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/backlog"
)

// show returns what a plan becomes as text: the loops with what they depend on, what is done, and the context.
func show(plan string, o Options) string {
	o.File = "p"
	s, err := Make([]byte(plan), o)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, one := range s.Specs {
		it := one.Loop
		if len(one.After) > 0 {
			it += "<" + strings.Join(one.After, "+")
		}
		all = append(all, it)
	}
	out := strings.Join(all, " ")
	for i, list := range [][]string{s.Done, s.Context} {
		if len(list) > 0 {
			out += []string{" done:", " context:"}[i] + strings.Join(list, "+")
		}
	}
	return out
}

func TestMake(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]string{
		"# A\n# B":                           "01-a 02-b<01-a",
		"# Plan\n## A\n### x\n## B\n### y\n": "01-a 02-b<01-a",
		"A\n=\n\nB\n=\n":                     "01-a 02-b<01-a",
		"\ufeff## A\r\n- [ ] x\r\n## B\r\n- [ ] y\r\n":  "01-a 02-b<01-a",
		"## Why\n## A\n- [ ] x\n## Not\n## B\n1. [ ] y": "01-a 02-b<01-a context:Why+Not",
		"## A\n- [x] x\n## B\n- [ ] y\n## C\n- [ ] z":   "02-b 03-c<02-b done:A",
		"## A\n- [x] x\n## B\n- [x] y\n":                "p: all of its boxes are ticked, so there is nothing to do",
		"```\n# A\n```\n# B\n~~~\n- [ ] no\n~~~\n# C":   "01-b 02-c<01-b",
		"# A\n```\n# B\n":                        "p:2: this fence is never closed",
		"# A\n## B":                              "p: it has no two headings of one level, so it is one spec",
		"":                                       "p: it has no two headings of one level, so it is one spec",
		"# A\xff\n# B":                           "p: it is not UTF-8 text",
		"#\n# B":                                 "p:1: this heading has no title",
		"# 2. A\n# 3) B\n# Phase 10: C":          "02-a 03-b<02-a 10-c<03-b",
		"# 2. A\n# 1. B":                         "01-a 02-b<01-a",
		"# 1.1 A\n# 1.2 B\nAfter: 1.1":           "01-a 02-b<01-a",
		"# Step 0\n# Step 1 - Go!\n# 3 ways\n":   "01-step-0 02-go<01-step-0 03-3-ways<02-go",
		"# [ ] A\n# [x] B\n# **C** `d`\n- [ ] c": "01-a 03-c-d<01-a done:B",
		"# 日本\n# Ö\n# a":                         "01 02<01 03-a<02",
		"# Same\n# Same\n":                       "01-same 02-same<01-same",
		"# A\n# B\nDepends on: none\n# C\nAfter: 1":                                   "01-a 02-b 03-c<01-a",
		"# A\n# B c\n# D\ndepends on: `b-c`, A":                                       "01-a 02-b-c 03-d<02-b-c+01-a",
		"# A\n# B\nDepends on: 01-a.md, 01-a, #1":                                     "01-a 02-b<01-a",
		"# Phase 1: A\n# Phase 2: B\nAfter: phase 1\n# Phase 3\nAfter: Phase 2: B, 1": "01-a 02-b<01-a 03-phase-3<02-b+01-a",
		"# 5. A\n# 6. B\nAfter: 1":                                                    "p:3: there is no section 1; there are: A, B",
		"# A\n# A\n# B\nAfter: A":                                                     "p:4: A may be the section at line 1 or the one at line 2; name it by its number",
		"# A\nAfter: A\n# B":                                                          "p:2: A depends on itself",
		"# A\nAfter: 3\n# B\nAfter: 1\n# C\nAfter: 2":                                 "p:2: a circle: A depends on C depends on B depends on A",
		"# Why\n# A\n- [ ] a\n# B\n- [ ] b\nAfter: why":                               "p:6: why has no boxes, so it becomes no spec on which another could depend",
		"# A\n- [x] a\n# B\n- [ ] b\nAfter: A\n# C\n- [ ] c":                          "02-b 03-c done:A",
		// only one section has boxes, all below headings of its own
		"# P\n## Goals\n## Work\nintro\n### A\n- [ ] a\n### B\n- [ ] b\n## Later\n": "01-a 02-b<01-a",
		"# P\n## Goals\n## Work\n- [ ] w\n### A\n- [ ] a\n### B\n- [ ] b\n":         "01-work context:Goals",
		"---\ntitle: x\n---\n# A\n# B":                                              "01-a 02-b<01-a",
		"# A\n<!--\n# no\n-->\n# B":                                                 "01-a 02-b<01-a",
		"## A\n# Other\ntext\n## B\n":                                               "01-a 02-b<01-a",
	} {
		if got := show(plan, Options{}); got != want {
			t.Errorf("%q: %s\nwant %s", plan, got, want)
		}
	}
	if got := show("# A\n# B", Options{Prefix: "x-y", Independent: true}); got != "x-y-01-a x-y-02-b" {
		t.Error(got)
	}
	if got := show("# A\n# B\nAfter: 1", Options{Independent: true}); got != "01-a 02-b<01-a" {
		t.Error("what the plan says counts:", got)
	}
	long := strings.Repeat("long ", 20)
	if got := show("# "+long+"\n# "+long, Options{Prefix: "sixteen-letters-"[:15]}); len(strings.Fields(got)[0]) > backlog.MaxID {
		t.Error(got)
	}
	if got := show(strings.Repeat("# A\n", maxSpecs+1), Options{}); got != "p:501: this is the section 501; at most 500 become specs" {
		t.Error(got)
	}
}

// The context is bounded, whole lines, and said to be cut.
func TestContextIsBounded(t *testing.T) {
	t.Parallel()
	s, err := Make([]byte(strings.Repeat("ä line of the preamble ~~~~\n", 2000)+"# A\n# B\n"), Options{File: "p"})
	if err != nil || !s.Cut || len(s.Specs[0].Text) > maxContext+1000 || !strings.HasSuffix(string(s.Specs[0].Text), "~~~~\n\n(this is not all of it)\n~~~~~\n") {
		t.Errorf("%v %s", err, text.Line(string(s.Specs[0].Text[max(0, len(s.Specs[0].Text)-200):]), 300))
	}
}

// drawn returns a plan of pieces that are near the borders of what counts.
func drawn(t *rapid.T) string {
	piece := rapid.SampledFrom([]string{"# A", "## B", "## C", "## 1. D", "### E", "Setext\n---", "T\n=", "```\n# no\n- [ ] no\n```", "~~~~\n```\n~~~~", "- [ ] open", "- [x] done", "| a | [ ] |",
		"Depends on: 1", "After: none", "- **Depends on:** B", "text", "> quote", "", "<!-- c -->", "---", "    # code", "[ ]", "## [ ] F", "~~~~~~\nx\n~~~~~~"})
	return strings.Join(rapid.SliceOfN(piece, 2, 20).Draw(t, "pieces"), "\n")
}

// check holds what is true of every plan.
func check(t interface {
	Helper()
	Fatalf(string, ...any)
}, plan string) {
	t.Helper()
	s, err := Make([]byte(plan), Options{File: "p"})
	if err != nil {
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Fatalf("%q: %v", plan, err)
		}
		return
	}
	d := document{Options: Options{File: "p"}}
	if err := d.read(plan); err != nil {
		t.Fatalf("%q: %v", plan, err)
	}
	// The sections and what stands outside of them are the plan: each line is in one of them.
	parts := slices.Clone(d.rest)
	for _, one := range d.sections {
		parts = append(parts, part{one.Line, one.end})
	}
	sortParts(parts)
	at := 1
	for _, p := range parts {
		if p.from != at || p.end <= p.from {
			t.Fatalf("%q: %v", plan, parts)
		}
		at = p.end
	}
	if at != len(d.lines)+1 {
		t.Fatalf("%q: %d lines, %v", plan, len(d.lines), parts)
	}
	seen := map[string]bool{}
	for _, one := range s.Specs {
		i := slices.IndexFunc(d.sections, func(s *section) bool { return s.Line == one.Line })
		var want []string
		for _, l := range d.lines[d.sections[i].Last : d.sections[i].end-1] {
			if _, is := d.names(l); !is {
				want = append(want, l.Text)
			}
		}
		// A spec has all the text of its section, its boxes, its title, and its dependencies where the backlog reads them.
		body := strings.Trim(strings.Join(want, "\n"), "\n")
		if !strings.Contains(string(one.Text), body) {
			t.Fatalf("%q: %q has not %q", plan, one.Text, body)
		}
		if open, done := markdown.Boxes(string(one.Text)); open != one.Open || done != one.Done || open+done > 0 && open == 0 {
			t.Fatalf("%q: %d and %d boxes in %q", plan, open, done, one.Text)
		}
		if got := backlog.DependsOn(one.Text); !slices.Equal(got, one.After) && len(got)+len(one.After) > 0 {
			t.Fatalf("%q: %q depends on %v", plan, one.Text, got)
		}
		if heads := markdown.Headings(string(one.Text)); len(heads) == 0 || heads[0].Line != 1 || heads[0].Level != 1 {
			t.Fatalf("%q: %q begins with no heading: %+v", plan, one.Text, heads)
		}
		// The names are the ids of loops, and what a spec depends on is a spec.
		if one.Loop != text.Slug(one.Loop, backlog.MaxID) || one.File != one.Loop+".md" || seen[one.Loop] {
			t.Fatalf("%q: %s", plan, one.Loop)
		}
		seen[one.Loop] = true
	}
	for _, one := range s.Specs {
		for _, dep := range one.After {
			if !seen[dep] || dep == one.Loop {
				t.Fatalf("%q: %s depends on %s", plan, one.Loop, dep)
			}
		}
	}
	if !slices.IsSortedFunc(s.Specs, func(a, b Spec) int { return strings.Compare(a.File, b.File) }) {
		t.Fatalf("%q: the order of the names is another one", plan)
	}
}

func TestAnyPlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { check(t, drawn(t)) })
}

// Whatever depends on whatever, a circle is found if and only if there is one.
func TestCircles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "n")
		reach := make([][]bool, n)
		var b strings.Builder
		for i := range n {
			reach[i] = make([]bool, n)
			var names []string
			for _, j := range rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, 3, rapid.ID[int]).Draw(t, "edges") {
				reach[i][j] = true
				names = append(names, fmt.Sprint(j+1))
			}
			fmt.Fprintf(&b, "# T%c\nAfter: %s\n", 'a'+i, strings.Join(append(names, "none"), ", "))
		}
		for k := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		circle := false
		for i := range n {
			circle = circle || reach[i][i]
		}
		_, err := Make([]byte(b.String()), Options{File: "p"})
		if (err != nil) != circle {
			t.Fatalf("%s%v", b.String(), err)
		}
	})
}

// FuzzPlan: any text is a plan that holds what TestAnyPlan wants, or the error says what is wrong and where.
func FuzzPlan(f *testing.F) {
	f.Add("# Plan\n\nWhy.\n\n## 1. A\n- [ ] a\n\n## 2. B\nDepends on: 1\n- [x] b\n- [ ] c\n")
	f.Add("A\n=\n```\n# no\n```\nB\n=\nAfter: a\n")
	f.Fuzz(func(t *testing.T, plan string) {
		check(t, plan)
		if _, err := Make([]byte(plan), Options{File: "p"}); err != nil {
			testkit.Plain(t, err.Error())
		}
	})
}
