package loop

import (
	"encoding/json"
	"fmt"
)

// DecodeFact gives the fact that an event line is, or nil when the event is
// only a record of something that a fact implied.
func DecodeFact(event string, fields json.RawMessage) (Fact, error) {
	switch event {
	case "loop_start":
		return decode[Started](event, fields)
	case "loop_resume":
		return decode[Resumed](event, fields)
	case "effect_lost":
		return decode[Lost](event, fields)
	case "role_start":
		return decode[RoleStarted](event, fields)
	case "role_end", "role_timeout", "role_failed":
		return decode[RoleEnded](event, fields)
	case "tests_start":
		return decode[TestsStarted](event, fields)
	case "tests_rerun_start":
		in, err := decode[TestsStarted](event, fields)
		in.Rerun = true
		return in, err
	case "tests_end":
		return decode[TestsEnded](event, fields)
	case "tests_rerun_end":
		in, err := decode[TestsEnded](event, fields)
		in.Rerun = true
		return in, err
	case "promise_checked":
		return decode[PromiseChecked](event, fields)
	case "checklist_end", "validation_end", "prerequisites_end", "evidence_end":
		in, err := decode[GateEnded](event, fields)
		in.Gate = event[:len(event)-len("_end")]
		return in, err
	case "validation_start":
		return decode[ValidationStarted](event, fields)
	case "stuck_checked":
		return decode[StuckChecked](event, fields)
	case "auto_commit_success", "auto_commit_skipped", "auto_commit_failed":
		in, err := decode[CommitEnded](event, fields)
		in.Outcome = event[len("auto_commit_"):]
		return in, err
	case "iteration_reported":
		return decode[Reported](event, fields)
	case "approval_requested":
		return decode[ApprovalRequested](event, fields)
	case "approval_decided":
		return decode[ApprovalDecided](event, fields)
	case "wait_over":
		return decode[WaitOver](event, fields)
	case "rate_limit_wait":
		in, err := decode[Limited](event, fields)
		if err == nil && in.Source != SourceShared {
			return nil, nil // the record of a limit that a role met
		}
		return in, err
	case "recovery_escalated":
		in, err := decode[Escalated](event, fields)
		if err == nil && in.ID == "" {
			return nil, nil // the record of something that a person is told of, and not asked
		}
		return in, err
	case "recovery_resolved":
		return decode[Resolved](event, fields)
	case "loop_stop":
		in, err := decode[Stopped](event, fields)
		// The machine records its own ends under the same name; only a stop that came from outside is an input.
		if err == nil && in.Status != Paused && in.Status != Cancelled {
			return nil, nil
		}
		return in, err
	}
	if f, err := decodeRemediation(event, fields); f != nil || err != nil {
		return f, err
	}
	if f, err := decodeRespond(event, fields); f != nil || err != nil {
		return f, err
	}
	return decodeRecovery(event, fields)
}

func decode[T Fact](event string, fields json.RawMessage) (T, error) {
	var in T
	if len(fields) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(fields, &in); err != nil {
		return in, fmt.Errorf("reading the fields of %s: %w", event, err)
	}
	return in, nil
}
