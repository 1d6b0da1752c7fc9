package loop

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superloop/superloop/recovery/failures"
)

// factDecoders reads the events that are inputs of the machine. A decoder gives nil for a line that has the name of an
// input and is only a record of something that a fact implied.
var factDecoders = map[string]func(event string, fields json.RawMessage) (Fact, error){
	"loop_start":  decode[Started],
	"loop_resume": decode[Resumed],
	// The machine records its own ends under the same name; only a stop that came from outside is an input.
	"loop_stop":           decodeIf(func(f *Stopped, _ string) bool { return f.Status == Paused || f.Status == Cancelled }),
	"effect_lost":         decode[Lost],
	"role_start":          decode[RoleStarted],
	"role_end":            decode[RoleEnded],
	"role_timeout":        decode[RoleEnded],
	"role_failed":         decode[RoleEnded],
	"tests_start":         decode[TestsStarted],
	"tests_rerun_start":   decodeIf(func(f *TestsStarted, _ string) bool { f.Rerun = true; return true }),
	"tests_end":           decode[TestsEnded],
	"tests_rerun_end":     decodeIf(func(f *TestsEnded, _ string) bool { f.Rerun = true; return true }),
	"promise_checked":     decode[PromiseChecked],
	"checklist_end":       decodeIf(gateName),
	"validation_end":      decodeIf(gateName),
	"prerequisites_end":   decodeIf(gateName),
	"evidence_end":        decodeIf(gateName),
	"validation_start":    decode[ValidationStarted],
	"stuck_checked":       decode[StuckChecked],
	"auto_commit_success": decodeIf(commitOutcome),
	"auto_commit_skipped": decodeIf(commitOutcome),
	"auto_commit_failed":  decodeIf(commitOutcome),
	"iteration_reported":  decode[Reported],
	"approval_requested":  decode[ApprovalRequested],
	"approval_decided":    decode[ApprovalDecided],
	"wait_over":           decode[WaitOver],
	// The machine records the limits that a role met under the same name.
	"rate_limit_wait": decodeIf(func(f *Limited, _ string) bool { return f.Source == SourceShared }),
	// Without an id an operator is told of something, and not asked.
	"recovery_escalated": decodeIf(func(f *Escalated, _ string) bool { return f.ID != "" }),
	"recovery_resolved":  decode[Resolved],
	"recovery_seen":      decode[Seen],
	"recovery_proposed":  decode[Proposed],
	"recovery_invalid":   decode[ProposalInvalid],
	// The verdict on a proposal is recorded under the same name.
	"recovery_denied":           decodeIf(func(f *ProposalStale, _ string) bool { return f.Rule == RuleStale }),
	"recovery_executing":        decode[Executing],
	"recovery_executed":         decodeIf(hasOutcome),
	"recovery_failed":           decodeIf(hasOutcome),
	"config_reloaded":           decode[Reconfigured],
	"tool_verified":             decode[ToolChecked],
	"verify_self_repaired":      decode[ToolChecked],
	"verify_self_repair_failed": decode[ToolChecked],
	"failure_classified":        decodeIf(func(f *Classified, _ string) bool { return f.ID != "" }), // else nothing waited for it
	failures.EventPreflight:     decode[EnvironmentBroken],
	failures.EventAnalysed:      decode[Analysed],
}

func hasOutcome(f *Executed, _ string) bool { return f.Ended != endedInterrupted }

func gateName(f *GateEnded, event string) bool {
	f.Gate = strings.TrimSuffix(event, "_end")
	return true
}

func commitOutcome(f *CommitEnded, event string) bool {
	f.Outcome = strings.TrimPrefix(event, "auto_commit_")
	return true
}

// DecodeFact gives the fact that an event line is, or nil when the event is only a record of something that a fact
// implied.
func DecodeFact(event string, fields json.RawMessage) (Fact, error) {
	if d, ok := factDecoders[event]; ok {
		return d(event, fields)
	}
	return nil, nil
}

func decode[T Fact](event string, fields json.RawMessage) (Fact, error) {
	return decodeIf(func(*T, string) bool { return true })(event, fields)
}

// decodeIf decodes a T. complete sets what only the event's name tells, and reports whether it is an input of the
// machine.
func decodeIf[T Fact](complete func(f *T, event string) bool) func(string, json.RawMessage) (Fact, error) {
	return func(event string, fields json.RawMessage) (Fact, error) {
		var f T
		if len(fields) > 0 {
			if err := json.Unmarshal(fields, &f); err != nil {
				return nil, fmt.Errorf("reading the fields of %s: %w", event, err)
			}
		}
		if !complete(&f, event) {
			return nil, nil
		}
		return f, nil
	}
}
