package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
)

func TestBranchOf(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{"ref: refs/heads/main\n": "main", "ref: refs/heads/x/<img>\n": "x/<img>", "ref: refs/tags/v1\n": "", "4d5a\n": "", "": ""} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, ".git"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, ".git", "HEAD"), []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := branchOf(root); got != want {
			t.Errorf("%q: %q", head, got)
		}
	}
	if got := branchOf(t.TempDir()); got != "" {
		t.Errorf("without git: %q", got)
	}
}

// A row tells since when a loop has its status, what it waits for, and how long its role says nothing.
func TestStandingOf(t *testing.T) {
	t.Parallel()
	p := layout.Paths{Repo: t.TempDir(), Loop: t.TempDir()}
	dir := p.Logs(2)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, when := range map[string]time.Time{"tester.log": at, "tester.attempt-2.log": at.Add(time.Minute), "tester.prompt.md": at.Add(time.Hour), "reviewer.log": at.Add(time.Hour)} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, when, when); err != nil {
			t.Fatal(err)
		}
	}
	v := loop.View{Status: loop.Running, Iteration: 2, ActiveSince: at, UpdatedAt: at.Add(time.Hour), LastGates: loop.Gates{Tests: "ok"}, Spent: loop.Spent{CostUSD: 2},
		Pending: &loop.Effect{Kind: loop.RunRole, Role: "tester", Runner: "r", MaxCostUSD: 8}}
	s := standingOf(p, v)
	if !s.StatusSince.Equal(at) || s.Runner != "r" || s.SaidAt == nil || !s.SaidAt.Equal(at.Add(time.Minute)) || s.BudgetUSD != 10 || len(s.Gates) != 1 || s.Gates["tests"] != "ok" {
		t.Errorf("%+v", s)
	}
	v.Status, v.Human = loop.AwaitingHuman, &loop.HumanState{Question: "q", Since: at.Add(2 * time.Hour)}
	if s := standingOf(p, v); s.Question != "q" || !s.StatusSince.Equal(at.Add(2*time.Hour)) || s.Runner != "" || s.SaidAt != nil {
		t.Errorf("%+v", s)
	}
	v.Status, v.Human, v.Limit = loop.RateLimited, nil, &loop.LimitState{Provider: "p", Until: at.Add(3 * time.Hour), Since: at}
	if s := standingOf(p, v); s.Limit == nil || s.Limit.Provider != "p" || !s.StatusSince.Equal(at) {
		t.Errorf("%+v", s)
	}
	v.Status, v.EndedAt = loop.Completed, at.Add(4*time.Hour)
	if s := standingOf(p, v); !s.StatusSince.Equal(v.EndedAt) || s.Step != "" {
		t.Errorf("%+v", s)
	}
}

// A row tells what the agent of a running loop is held for.
func TestStandingHeld(t *testing.T) {
	t.Parallel()
	p := layout.Paths{Private: t.TempDir()}
	store := escalation.Store{Disk: durable.OS(), Dir: p.Questions(), Loop: "l"}
	now := time.Now()
	rec, err := store.Open(t.Context(), escalation.Question{Loop: "l", Run: "r", Type: escalation.ToolPermission, Repo: "/w", Reason: "It asks.",
		Tool: &escalation.Tool{Name: "Bash", Input: []byte("{}"), Digest: strings.Repeat("a", 64), PolicyDigest: strings.Repeat("b", 64), Until: now.Add(time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s    Standing
		at   time.Time
		held bool
	}{
		{Standing{RunID: "r", Step: loop.RunRole, Runner: "x"}, now, true},
		{Standing{RunID: "r", Step: loop.RunRole}, now, true}, // the performer chooses the runner
		{Standing{RunID: "r", Step: loop.RunRole, Runner: "x"}, now.Add(time.Hour), false},
		{Standing{RunID: "old", Step: loop.RunRole, Runner: "x"}, now, false},
		{Standing{RunID: "r", Step: loop.RunTests}, now, false},
	} {
		s := c.s
		s.held(p, "l", c.at)
		if held := s.SubStatus == "awaiting_permission" && s.Question == rec.Question.ID && s.Hold.What == "Bash: {}"; held != c.held || !held && (s.Hold != nil || s.SubStatus != "") {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}
