package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/recovery/failures"
)

// twoCLIs are roles that either of two CLIs may do, claude first.
const twoCLIs = `{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": 2, "completion_promise": "GREETED", "completion": {"allow_ungated": true},
	"roles": {"implementer": {"runners": [{"runner": "claude", "model": "claude-sonnet-4-5"}, {"runner": "codex", "model": "gpt-5.2-codex"}]},
		"reviewer": {"runners": [{"runner": "claude", "model": "claude-sonnet-4-5"}, {"runner": "codex", "model": "gpt-5.2-codex"}]}}}`

// TestRealFailurePolicy: the provider of the real claude is out of quota for an hour; the
// real codex finishes both roles, and claude is asked once.
// Conforms: 003-test-provider, 003-r1
func TestRealFailurePolicy(t *testing.T) {
	realCLIs(t, "claude", "codex")
	t.Parallel()
	n := &testEnv{t: t, root: t.TempDir()}
	team := n.team(1)
	s := n.play(func(c mockapi.Call) mockapi.Reply {
		if c.API == mockapi.Anthropic {
			return mockapi.Limit(mockapi.Anthropic, time.Now().Add(time.Hour))
		}
		return team(c)
	})
	n.furnish(s, twoCLIs, true)
	code, out := n.superloop(nil, "run", "--loop", "l")
	if code != 0 || n.count("iteration_start") != 1 || n.count("runner_reassigned") != 1 || n.count("rate_limit_wait") != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out, n.logs())
	}
	by := map[string]int{}
	for _, r := range n.roleEnds() {
		by[r.Runner+" "+r.Outcome]++
	}
	if by["codex ok"] != 2 || len(by) != 2 {
		t.Fatalf("%v\n%s", by, out)
	}
	for _, ev := range n.events() {
		var f failures.DetectedFields
		if ev.Event == failures.EventDetected && (json.Unmarshal(ev.Fields, &f) != nil || f.Kind != failures.KindLimit || f.Counted || f.Step != failures.StepReassign || f.DetectMS > 1000) {
			t.Errorf("%s", ev.Fields)
		}
	}
	n.noSecrets()
}
