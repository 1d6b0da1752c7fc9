package effects

import (
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/failures"
)

// Alerts tells people of what no one waits for: that failures are more than one
// role's, and that a runner needs a person while another one does its work.
func (o *Outbox) Alerts(before, after loop.State, fact loop.Fact) {
	f, ok := fact.(loop.RoleEnded)
	if !ok || after.Plan.Respond == nil {
		return
	}
	for _, a := range f.Alerts {
		o.announce(notify.Message{ID: fmt.Sprintf("alert/%s/%s/%s/%d", a.Trigger, a.Severity, a.Category, a.At.UnixMilli()), Kind: notify.Alert,
			Loop: o.LoopID, Repo: o.Paths.Repo, Iteration: after.Iteration, Type: a.Trigger, Status: a.Severity, Category: a.Category,
			Reason: says(a), RootCause: a.Cause, Created: o.Clock().UTC(), Actions: notify.Actions{Manual: "superloop stats --loop " + o.LoopID}}, false)
	}
	if f.Failure == nil || after.Human != nil || after.Pending == nil {
		return // the question, or the end, says it
	}
	unfit := f.Failure.Blame == failures.BlameAccount || f.Failure.Blame == failures.BlameSettings
	l, was := after.Response.Policy, before.Response.Policy
	nobody := l != nil && l.Alerted && (was == nil || !was.Alerted)
	if !unfit && !nobody {
		return
	}
	m := notify.Message{ID: fmt.Sprintf("runner/%s/%s/%s/%s", after.RunID, after.Pending.ID, f.Runner, f.Failure.Kind), Kind: notify.Alert,
		Loop: o.LoopID, Repo: o.Paths.Repo, Iteration: after.Iteration, Type: loop.EscalationRunner, Status: "a runner needs a person",
		Category: f.Failure.Category, Reason: fmt.Sprintf("%s: %s; another runner goes on", f.Failure.Agent, f.Failure.Why),
		Created: o.Clock().UTC(), Actions: notify.Actions{Manual: f.Fix}}
	if nobody {
		m.Status = "no runner is fit"
		m.Reason = fmt.Sprintf("%s; the %s waits until %s", f.Failure.Why, f.Role, l.Until.UTC().Format(time.RFC3339))
	}
	o.announce(m, false)
}

// says is an alert in one sentence.
func says(a failures.Alert) string {
	where := ""
	if len(a.Loops) > 0 {
		where = " (loops " + strings.Join(a.Loops, ", ") + ")"
	}
	switch a.Trigger {
	case failures.TriggerCategory:
		return fmt.Sprintf("%d failures of the same kind, %s, since %s%s", a.Failures, a.Category, a.Since.UTC().Format(time.RFC3339), where)
	case failures.TriggerSilence:
		return fmt.Sprintf("no role has succeeded since %s, %d have failed%s", a.Since.UTC().Format(time.RFC3339), a.Failures, where)
	}
	return fmt.Sprintf("%d of %d role runs have failed since %s%s", a.Failures, a.Runs, a.Since.UTC().Format(time.RFC3339), where)
}
