package gate

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/loop"
)

// CommandResult is how one command of the tests or of the validation ended, as the supervisor that ran it saw it.
type CommandResult struct {
	From, To int64 // where its output stands in the file that all are written to
	Command  string
	ExitCode int    // of the shell; negative or 0 when Signal or Error says more
	Signal   string // "SIGKILL" and the like when a signal ended it
	TimedOut bool
	Error    string // why it could not be started
	Duration time.Duration
	Output   []byte // what is to be shown of its output
}

// Failed reports whether the command did anything but exit with 0.
func (c CommandResult) Failed() bool {
	return c.ExitCode != 0 || c.Signal != "" || c.TimedOut || c.Error != ""
}

// Code is the exit code as a shell would tell it: 0 only for success, 124 for a time-out, 128+n for signal n, 127 for a
// command that could not be started.
func (c CommandResult) Code() int {
	switch {
	case c.ExitCode > 0:
		return c.ExitCode
	case c.TimedOut:
		return 124
	case c.Signal != "":
		return 128 + signalNumber(c.Signal)
	case c.Error != "":
		return 127
	case c.ExitCode < 0:
		return 255
	}
	return 0
}

// signalNumber is the number of a signal on this system; 0 for an unknown name.
func signalNumber(name string) int {
	if n := unix.SignalNum(name); n != 0 {
		return int(n)
	}
	for n := syscall.Signal(1); n < 32; n++ {
		if n.String() == name { // as Go prints it
			return int(n)
		}
	}
	return 0
}

// commandJSON is a CommandResult in a status file.
type commandJSON struct {
	Command    string `json:"command"`
	OK         bool   `json:"ok"`
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	TimedOut   bool   `json:"timed_out,omitempty"`
	Error      string `json:"error,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

func commandList(results []CommandResult) []commandJSON {
	return orEmpty(loop.Map(results, func(c CommandResult) commandJSON {
		return commandJSON{c.Command, !c.Failed(), c.Code(), c.Signal, c.TimedOut, c.Error, c.Duration.Milliseconds()}
	}))
}

// TestsResult is the verdict over the test commands. ExitCode is that of the first command that failed, so it is 0
// exactly when none did.
type TestsResult struct {
	OK       bool
	Skipped  bool // there was nothing to run
	ExitCode int
	Failed   string // the first command that failed
	Duration time.Duration
	Commands []CommandResult
}

// TestStatus judges the test commands; without any the tests are skipped.
func TestStatus(results []CommandResult) TestsResult {
	t := TestsResult{OK: true, Skipped: len(results) == 0, Commands: results}
	for _, c := range results {
		t.Duration += c.Duration
		if c.Failed() && t.OK {
			t.OK, t.ExitCode, t.Failed = false, c.Code(), c.Command
		}
	}
	return t
}

// Status is "ok", "failed" or "skipped".
func (t TestsResult) Status() string {
	if t.Skipped {
		return StatusSkipped
	}
	return okOr(t.OK, StatusFailed)
}

// StatusJSON is test-status.json.
func (t TestsResult) StatusJSON(at time.Time) []byte {
	if t.Skipped {
		return pretty(members{{"ok", true}, {"skipped", true}, {"generated_at", stamp(at)}})
	}
	m := members{{"ok", t.OK}, {"exit_code", t.ExitCode}, {"generated_at", stamp(at)}}
	if t.Failed != "" {
		m = append(m, member{"failed_command", t.Failed})
	}
	return pretty(append(m, member{"commands", commandList(t.Commands)}))
}

// ValidationResult is what the validation gate found. Preflight is nil when no page was to be checked.
type ValidationResult struct {
	OK        bool
	Preflight *PreflightResult
	Commands  []CommandResult
	Failed    []string // what failed, one sentence each
}

// Validation judges the static checks of a page, nil for none, and the commands that the supervisor ran. With neither
// there was nothing to validate, and the gate is skipped: it is never passed by an empty configuration.
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

// ResultsJSON is validation-results.json. The original's browser steps are not part of superloop; their keys stay, as
// null.
func (v ValidationResult) ResultsJSON(loopID string, iteration int, at time.Time) []byte {
	return pretty(members{{"generated_at", stamp(at)}, {"loop_id", loopID}, {"iteration", iteration}, {"ok", v.OK}, {"status", v.Status()},
		{"preflight", v.Preflight}, {"smoke_tests", nil}, {"automated_checklist", nil}, {"agent_browser", nil},
		{"commands", commandList(v.Commands)}, {"failed", orEmpty(v.Failed)}})
}
