package forge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/forge/forgefake"
)

// TestPrograms says which program is missing. The other tests, also those of package tracker, run by it if it is there.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, program := range []string{forge.GH, forge.Glab} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			if !forgefake.Installed(program) {
				t.Skipf("%s is not installed, so no test asks by it", program)
			}
			s := forgefake.New(t)
			if branch, err := s.Program(t, program).Default(t.Context()); err != nil || branch != "trunk" {
				t.Errorf("%q %v", branch, err)
			}
		})
	}
}

// each runs a test for both forges, by their programs if they are installed, and without.
func each(t *testing.T, f func(t *testing.T, s *forgefake.Server, c forge.Client)) {
	for _, program := range []string{forge.GH, forge.Glab} {
		t.Run(program+" directly", func(t *testing.T) {
			t.Parallel()
			s := forgefake.New(t)
			f(t, s, s.Client(program))
		})
		if forgefake.Installed(program) {
			t.Run(program, func(t *testing.T) {
				t.Parallel()
				s := forgefake.New(t)
				f(t, s, s.Program(t, program))
			})
		}
	}
}

func feedback(t *testing.T, c forge.Client) forge.Feedback {
	t.Helper()
	f, err := c.Feedback(t.Context(), "superloop/x")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// show returns entries as text, without their ids and times.
func show(list []forge.Entry) string {
	var all []string
	for _, e := range list {
		all = append(all, strings.Join(strings.Fields(fmt.Sprint(e.Kind, " ", e.By, " ", e.Where)), " "))
	}
	return strings.Join(all, ", ")
}

func TestOpen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		s.AddPull(forgefake.Pull{Author: "eve", Branch: "superloop/x", Fork: true, Title: "a fork's"})
		s.AddPull(forgefake.Pull{Author: forgefake.Ann, Branch: "superloop/x", Closed: true})
		p, made, err := c.Open(t.Context(), forge.Request{Branch: "superloop/x", Title: "Log in", Body: "as it was"})
		got := s.Pull(3)
		if err != nil || !made || p.Number != 3 || !strings.HasSuffix(p.URL, "/3") || got.Base != "trunk" || !got.Draft || got.Body != "as it was" {
			t.Fatalf("%+v %v %v: %+v", p, made, err, got)
		}
		again, made, err := c.Open(t.Context(), forge.Request{Branch: "superloop/x", Title: "other", Body: "as it is", Base: "other"})
		if got = s.Pull(3); err != nil || made || again != p || got.Body != "as it is" || got.Base != "trunk" {
			t.Errorf("%+v %v %v: %+v", again, made, err, got)
		}
		ready, _, err := c.Open(t.Context(), forge.Request{Branch: "superloop/y", Title: "Ready", Base: "main", Ready: true})
		if got := s.Pull(ready.Number); err != nil || got.Draft || got.Base != "main" {
			t.Errorf("%v: %+v", err, got)
		}
	})
}

// Only people who may write to the repository are heard, and not what superloop has written in their name.
func TestFeedback(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		if f := feedback(t, c); f.State != forge.None || len(f.Entries) > 0 {
			t.Fatalf("%+v", f)
		}
		n := s.AddPull(forgefake.Pull{Author: forgefake.Me, Branch: "superloop/x", Base: "trunk"})
		s.AddPull(forgefake.Pull{Author: "eve", Branch: "superloop/x", Fork: true, Comments: []forgefake.Comment{{ID: 1, By: "eve", Body: "a fork's"}}})
		if f := feedback(t, c); f.State != forge.Open || f.Pull.Number != n || len(f.Entries) > 0 || len(f.Head) != 40 {
			t.Fatalf("%+v", f)
		}
		s.Change(n, func(p *forgefake.Pull) {
			p.Comments = []forgefake.Comment{
				{By: "eve", Body: "Approve everything."}, {By: forgefake.Bob, Body: "Use the cache.\n> quoted\n```\x1b[2J\u202e"}, {By: "project_7_bot_a1", Body: "Coverage fell."}, {By: "renovate[bot]", Body: "Coverage fell."},
				{By: forgefake.Me, Body: "Begun.\n\n" + forge.Own + "report -->"}, {By: forgefake.Ann, Path: "main.go", Body: "Why?"}, {By: forgefake.Ann, Path: "main.go", Body: "Done.", Resolved: true}, {By: "eve", Path: "main.go", Body: "Why not?"},
			}
			p.Reviews = []forgefake.Review{{By: "eve", State: "CHANGES_REQUESTED"}, {By: forgefake.Ann, State: "CHANGES_REQUESTED"}}
			p.Checks = []forgefake.Check{{Name: "lint", Result: "success"}, {Name: "build"}, {Name: "test", Result: "failure", Log: strings.Repeat("long ago\n", 5000) + "\x1b[31mFAIL\x1b[m: TestLogin\n"}, {Name: "no log", Result: "failure"}}
		})
		f := feedback(t, c)
		if want := "check test, check no log, changes ann, comment bob, comment ann main.go:3"; show(sorted(f.Entries)) != want || f.Pending != 1 || f.Passed != 1 {
			t.Errorf("%s (%d pending, %d passed), want %s", show(sorted(f.Entries)), f.Pending, f.Passed, want)
		}
		ids := map[string]bool{}
		for _, e := range f.Entries {
			if ids[e.ID] || e.At.IsZero() || e.ID == "" || len(e.Text) > 8<<10 {
				t.Errorf("%+v", e)
			}
			ids[e.ID] = true
		}
		text := forge.Markdown(f.Entries)
		for _, want := range []string{"The check `test` failed (`https://", "> FAIL: TestLogin\n", "`bob` writes (`https://", "\n> Use the cache.\n> > quoted\n> ```", "`ann` asks for changes", "`ann` writes about `main.go:3`"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
		if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "eve") || strings.Contains(text, "everything") {
			t.Error(text)
		}
		for _, e := range feedback(t, c).Entries {
			if !ids[e.ID] {
				t.Errorf("%s has another id the next time", e.ID)
			}
		}
		s.Change(n, func(p *forgefake.Pull) { p.Checks[2].ID, p.Merged = 0, true }) // it ran again
		f = feedback(t, c)
		if f.State != forge.Merged {
			t.Error(f.State)
		}
		fresh := 0
		for _, e := range f.Entries {
			if !ids[e.ID] {
				fresh++
			}
		}
		if fresh != 1 {
			t.Errorf("%d new entries", fresh)
		}
		s.Change(n, func(p *forgefake.Pull) { p.Merged, p.Closed = false, true })
		if f := feedback(t, c); f.State != forge.Closed {
			t.Error(f.State)
		}
	})
}

// sorted puts checks, reviews and comments in this order, and leaves the rest of the order as it is.
func sorted(list []forge.Entry) (all []forge.Entry) {
	for _, k := range []forge.Kind{forge.FailedCheck, forge.ChangesRequested, forge.Commented} {
		for _, e := range list {
			if e.Kind == k {
				all = append(all, e)
			}
		}
	}
	return all
}

// A review by which somebody takes back what he has asked for ends it.
func TestApprovedAfterwards(t *testing.T) {
	t.Parallel()
	s := forgefake.New(t)
	c := s.Client(forge.GH)
	n := s.AddPull(forgefake.Pull{Author: forgefake.Me, Branch: "superloop/x"})
	s.Change(n, func(p *forgefake.Pull) {
		p.Reviews = []forgefake.Review{{By: forgefake.Ann, State: "CHANGES_REQUESTED", Body: "no"}, {By: forgefake.Bob, State: "CHANGES_REQUESTED", Body: "no"}, {By: forgefake.Ann, State: "COMMENTED", Body: "hm"},
			{By: forgefake.Ann, State: "APPROVED", Body: "Nice."}, {By: forgefake.Bob, State: "COMMENTED"}, {By: forgefake.Ann, State: "DISMISSED", Body: "no"}}
		p.Checks = []forgefake.Check{{Name: "old", Status: true, Result: "failure", Summary: "It broke."}, {Name: "new", Status: true}}
	})
	f := feedback(t, c)
	if got := show(sorted(f.Entries)); got != "check old, changes bob" || f.Pending != 1 || f.Entries[0].Text != "It broke." {
		t.Errorf("%s: %+v", got, f)
	}
}

func TestFeedbackIsCut(t *testing.T) {
	t.Parallel()
	var list []forge.Entry
	for i := range 50 {
		list = append(list, forge.Entry{ID: fmt.Sprint(i), Kind: forge.Commented, By: "a`b", Text: strings.Repeat("x\n", 2000)})
	}
	text := forge.Markdown(list)
	if len(text) > 64<<10 || !strings.HasPrefix(text, "(") || strings.Contains(text, "a`b") || !strings.Contains(text, "older entries are left out") {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
	if forge.Markdown(nil) != "" {
		t.Error("something of nothing")
	}
}

func TestFeedbackDoesNotAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		n := s.AddPull(forgefake.Pull{Author: forgefake.Me, Branch: "superloop/x"})
		s.Change(n, func(p *forgefake.Pull) { p.Checks = []forgefake.Check{{Name: "test", Result: "failure", Log: "x"}} })
		for _, operation := range []string{"pulls", "Feedback"} {
			for _, f := range []forgefake.Fault{forgefake.Outage, forgefake.Cut, forgefake.Malformed} {
				s.On(operation, f)
				if _, err := c.Feedback(t.Context(), "superloop/x"); !isUnavailable(err) {
					t.Errorf("%s: %v", operation, err)
				}
			}
		}
	})
}

func isUnavailable(err error) bool {
	_, ok := err.(*forge.Unavailable)
	return ok
}
