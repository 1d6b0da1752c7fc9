package api

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

// A question about a remediation plan answers with all of it: what failed with its exit code and output, the options in
// the order of a page with why one is locked or impossible, steps, breadcrumbs, and what is always possible. After a
// restart of the daemon it is the same.
// Conforms: 000-6-one, 000-6-exit, 000-6-failure, 000-6-failure-more, 000-6-options, 000-6-steps, 000-6-chain, 000-6-fallback, 000-5.6-push
func TestQuestionHasAllOfThePlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t, dir)
	p, err := layout.NewPaths(filepath.Join(dir, "repo"), "l", filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	option := func(id, availability, reason string) plan.Choice {
		return plan.Choice{Key: "h/" + id, ID: id, Label: "do " + id, Strategy: "env_fix", Availability: availability, Reason: reason, Executor: "wrapper", Risk: "low", Steps: 2,
			Draft: action.Draft{Command: "run " + id, WorkingDir: ".", Confidence: "high"}}
	}
	locked := option("pipx", "locked", "pipx is missing")
	locked.Needs, locked.UnlockSteps = []plan.Need{{Goal: "tool/pipx", Label: "install pipx"}}, 1
	chain := plan.New("c-1", plan.Goal{Command: "pip install ruff", Key: "cmd/g"}, plan.Failure{Category: "environment", Handler: "pep668", Label: "Externally managed", Description: "The system's",
		Layer: "method_family", Method: "pip", ExitCode: 3, Stderr: "error: externally-managed-environment"},
		[]plan.Choice{option("apt", "ready", ""), option("brew", "impossible", "there is no brew"), locked, option("venv", "ready", "")}, 0, 0, now)
	store := escalation.Store{Disk: durable.OS(), Dir: p.Questions(), Loop: "l"}
	if err := os.MkdirAll(p.Questions(), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := escalation.NewCommand(option("apt", "ready", "").Action())
	cmd.Source, cmd.TimeoutMS = "superloop", 1000
	rec, err := store.Open(t.Context(), escalation.Question{Loop: "l", Run: "r", Type: escalation.RecoveryApproval, Repo: p.Repo, Reason: "it has to be you", Command: &cmd,
		Options: []escalation.Option{{ID: "venv", Label: "do venv", Command: "run venv"}, {ID: "fallback", Label: "the other", Command: "run other"}}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(loop.View{LoopID: "l", RunID: "r", Status: loop.AwaitingHuman, Human: &loop.HumanState{Question: rec.Question.ID}, Recovery: &loop.RecoveryState{Plan: &chain}, StartedAt: now})
	if err := errors.Join(err, os.WriteFile(p.File("state.json"), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	get := func(w *world) (q Question, text string) {
		r := httptest.NewRecorder()
		w.handler.ServeHTTP(r, httptest.NewRequest("GET", "/api/v1/escalations/"+rec.Question.ID, nil))
		var is struct {
			Question
			Chain json.RawMessage `json:"chain"`
		}
		if err := json.Unmarshal(r.Body.Bytes(), &is); err != nil || r.Code != 200 {
			t.Fatalf("%d %v %s", r.Code, err, r.Body)
		}
		return is.Question, r.Body.String()
	}
	q, text := get(w)
	var order []string
	for _, o := range q.Options {
		order = append(order, o.ID+" "+o.Availability+" "+o.Answer+" "+o.LockReason+o.Impossible)
	}
	if got, want := strings.Join(order, "; "), "apt ready approve ; venv ready choose ; fallback ready choose ; pipx locked  pipx is missing; brew impossible  there is no brew"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if o := q.Options; !o[0].Recommended || o[1].Recommended || o[0].Steps != 2 || o[3].UnlockSteps != 1 || len(o[3].UnlockDeps) != 1 || o[3].UnlockDeps[0] != "tool/pipx" || o[0].Risk != "low" {
		t.Errorf("%+v", o)
	}
	if q.ExitCode == nil || *q.ExitCode != 3 || !strings.Contains(q.Stderr, "externally-managed") || q.Failure == nil || q.Failure.ID != "pep668" || q.Failure.Category != "environment" ||
		q.Failure.Label != "Externally managed" || q.Failure.Description == "" || q.Failure.Layer != "method_family" || q.Failure.Method != "pip" {
		t.Errorf("%+v %+v", q, q.Failure)
	}
	for _, part := range []string{`"breadcrumbs":[`, `"max_depth":3`, `"chain_id":"c-1"`, `"original_goal":`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	if len(q.Fallback) != 3 || q.Fallback[0].ID != "retry" || q.Fallback[1].ID != "skip" || q.Fallback[2].ID != "cancel" {
		t.Errorf("%+v", q.Fallback)
	}

	// A daemon that begins anew answers the same, and tells whoever connects.
	w2 := newWorld(t, dir)
	if _, again := get(w2); again != text {
		t.Errorf("%s\nwas %s", again, text)
	}
	s := httptest.NewServer(w2.handler)
	defer s.Close()
	c := w2.connect(t, s, "")
	defer c.stop()
	if _, event, data := c.next(); event != "question" || data != strings.TrimSpace(text) {
		t.Errorf("%s %s\nwant %s", event, data, text)
	}
}
