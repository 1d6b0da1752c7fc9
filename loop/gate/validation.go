package gate

import "time"

// ValidationResult is what the validation gate found. Preflight is nil when no
// page was to be checked.
type ValidationResult struct {
	OK        bool
	Preflight *PreflightResult
	Commands  []CommandResult
	Failed    []string // what failed, one sentence each
}

// Validation judges the static checks of a page, nil for none, and the commands
// that the supervisor ran. With neither there was nothing to validate, and the
// gate is skipped: it is never passed by an empty configuration.
func Validation(pre *PreflightResult, commands []CommandResult) ValidationResult {
	v := ValidationResult{Preflight: pre, Commands: commands}
	if pre != nil {
		for _, e := range pre.Errors {
			v.Failed = append(v.Failed, "preflight: "+oneLine(e, maxItem))
		}
		if !pre.OK && len(pre.Errors) == 0 {
			v.Failed = append(v.Failed, "preflight: failed")
		}
	}
	for _, c := range commands {
		if c.Failed() {
			v.Failed = append(v.Failed, "command: "+oneLine(c.Command, maxItem))
		}
	}
	v.OK = len(v.Failed) == 0
	return v
}

// Status is "ok", "failed" or "skipped".
func (v ValidationResult) Status() string {
	if v.Preflight == nil && len(v.Commands) == 0 {
		return StatusSkipped
	}
	return okOr(v.OK, StatusFailed)
}

// ResultsJSON is validation-results.json. The original's browser steps are not
// part of superloop; their keys stay, as null.
func (v ValidationResult) ResultsJSON(loopID string, iteration int, at time.Time) []byte {
	return pretty(members{{"generated_at", stamp(at)}, {"loop_id", loopID}, {"iteration", iteration}, {"ok", v.OK}, {"status", v.Status()},
		{"preflight", v.Preflight}, {"smoke_tests", nil}, {"automated_checklist", nil}, {"agent_browser", nil},
		{"commands", commandList(v.Commands)}, {"failed", orEmpty(v.Failed)}})
}
