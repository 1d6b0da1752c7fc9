package effects

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/failures"
)

// recFailed is a role that has failed, and the states around it.
func recFailed() (before, after loop.State, f loop.RoleEnded) {
	after = loop.State{RunID: "run-1", Iteration: 3, Plan: loop.Plan{Respond: &loop.RespondPlan{}}, Pending: &loop.Effect{ID: "e-2"}}
	after.Response.Policy = &failures.State{}
	before = after
	f = loop.RoleEnded{Role: "tester", Runner: "claude", Fix: "claude /login"}
	f.Failure = &loop.FailureFact{Event: failures.Event{Agent: failures.Agent{Runner: "claude"}, Kind: "exit", Category: "auth", Why: "not logged in", Blame: failures.BlameAccount}}
	return before, after, f
}

// alerts are the messages that come of a fact.
func recAlerts(t *testing.T, before, after loop.State, facts ...loop.Fact) []notify.Message {
	t.Helper()
	var got []notify.Message
	recBubble(t, func(t *testing.T, r *recHost, first, _ *recNotifier) {
		r.outbox.Configure()
		r.Paths.Repo = "/repo"
		for _, f := range facts {
			r.outbox.Alerts(before, after, f)
		}
		r.outbox.Close()
		synctest.Wait()
		got = first.messages()
	})
	return got
}

func TestRunnerNeedsAHuman(t *testing.T) {
	t.Parallel()
	until := recStart.Add(time.Hour)
	alerted := func(s *loop.State) { s.Response.Policy = &failures.State{Alerted: true, Until: until} }
	const unfit, nobody = "a runner needs an operator", "no runner is fit"
	for name, c := range map[string]struct {
		change func(before, after *loop.State, f *loop.RoleEnded)
		status string // "": nobody is told
	}{
		"its account":        {func(_, _ *loop.State, _ *loop.RoleEnded) {}, unfit},
		"its settings":       {func(_, _ *loop.State, f *loop.RoleEnded) { f.Failure.Blame = failures.BlameSettings }, unfit},
		"its provider":       {func(_, _ *loop.State, f *loop.RoleEnded) { f.Failure.Blame = failures.BlameProvider }, ""},
		"no failure":         {func(_, _ *loop.State, f *loop.RoleEnded) { f.Failure = nil }, ""},
		"a human is asked":   {func(_, after *loop.State, _ *loop.RoleEnded) { after.Human = &loop.HumanState{} }, ""},
		"the loop has ended": {func(_, after *loop.State, _ *loop.RoleEnded) { after.Pending = nil }, ""},
		"nobody responds":    {func(_, after *loop.State, _ *loop.RoleEnded) { after.Plan.Respond = nil }, ""},
		"nobody is fit": {func(_, after *loop.State, f *loop.RoleEnded) {
			alerted(after)
			f.Failure.Blame = failures.BlameProvider
		}, nobody},
		"nobody, at once": {func(before, after *loop.State, _ *loop.RoleEnded) { alerted(after); before.Response.Policy = nil }, nobody},
		"nobody, as before": {func(before, after *loop.State, f *loop.RoleEnded) {
			alerted(after)
			alerted(before)
			f.Failure.Blame = failures.BlameProvider
		}, ""},
		"an account, no steps": {func(_, after *loop.State, _ *loop.RoleEnded) { after.Response.Policy = nil }, unfit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after, f := recFailed()
			c.change(&before, &after, &f)
			got := recAlerts(t, before, after, f, f, loop.TestsEnded{})
			if c.status == "" {
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			reason := map[string]string{unfit: fmt.Sprintf("%s: not logged in; another runner goes on", f.Failure.Agent), nobody: "not logged in; the tester waits until 2026-11-22T13:00:00Z"}
			want := notify.Message{ID: "runner/run-1/e-2/claude/exit", Kind: notify.Alert, Loop: "l", Repo: "/repo", Iteration: 3, Type: loop.EscalationRunner, Status: c.status,
				Category: "auth", Reason: reason[c.status], Facts: []string{noCost}, Created: recStart, Next: "claude /login"}
			if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		})
	}
}

// Conforms: 003-alert-told, 003-r4-alerts
func TestFailuresAreMoreThanOneRoles(t *testing.T) {
	t.Parallel()
	alert := failures.Alert{Severity: "high", Category: "network", Runs: 9, Failures: 7, Since: recStart.Add(-time.Hour), At: recStart, Cause: "the proxy", Loops: []string{"a", "b"}}
	for trigger, reason := range map[string]string{
		failures.TriggerRate:     "7 of 9 role runs have failed since 2026-11-22T11:00:00Z (loops a, b)",
		failures.TriggerCategory: "7 failures of the same kind, network, since 2026-11-22T11:00:00Z (loops a, b)",
		failures.TriggerSilence:  "no role has succeeded since 2026-11-22T11:00:00Z, 7 have failed (loops a, b)",
	} {
		before, after, f := recFailed()
		a := alert
		a.Trigger = trigger
		f.Failure, f.Alerts = nil, []failures.Alert{a}
		got := recAlerts(t, before, after, f, f)
		want := notify.Message{ID: fmt.Sprintf("alert/%s/high/network/%d", trigger, recStart.UnixMilli()), Kind: notify.Alert, Loop: "l", Repo: "/repo", Iteration: 3, Type: trigger,
			Status: "high", Category: "network", Reason: reason, RootCause: "the proxy", Facts: []string{noCost}, Created: recStart, Next: "superloop stats --repo /repo --loop l"}
		if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	}
	if got := says(failures.Alert{Trigger: failures.TriggerRate, Since: recStart}); got != "0 of 0 role runs have failed since 2026-11-22T12:00:00Z" {
		t.Error(got)
	}
}
