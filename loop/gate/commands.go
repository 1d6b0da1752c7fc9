package gate

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/loop"
)

// CommandResult says how one command of the tests or of the validation ended. The supervisor ran the command.
type CommandResult struct {
	From, To int64 // byte range of the command's output in the file that holds the output of all commands
	Command  string
	ExitCode int    // exit code of the shell; negative or 0 if Signal or Error says more
	Signal   string // name of the signal that ended the command, such as "SIGKILL"
	TimedOut bool
	Error    string // why the command could not be started
	Duration time.Duration
	Output   []byte // the part of the output that reports show
}

// Failed reports whether the command did not exit with code 0.
func (c CommandResult) Failed() bool {
	return c.ExitCode != 0 || c.Signal != "" || c.TimedOut || c.Error != ""
}

// Code returns the exit code in the form of a shell: 0 only for success, 124 for a time-out, 128+n for signal n, and
// 127 for a command that could not be started.
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

// signalNumber returns the number of a signal on this system, or 0 for an unknown name.
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

// commandJSON is a CommandResult in the form of the status files.
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

// TestsResult is the verdict on the test commands. ExitCode is the code of the first command that failed, so it is 0 if
// and only if no command failed.
type TestsResult struct {
	OK       bool
	Skipped  bool // there were no commands to run
	ExitCode int
	Failed   string // the first command that failed
	Duration time.Duration
	Commands []CommandResult
}

// TestStatus judges the test commands. Without any command, the tests are skipped.
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

// Status returns "ok", "failed" or "skipped".
func (t TestsResult) Status() string {
	if t.Skipped {
		return StatusSkipped
	}
	return okOr(t.OK, StatusFailed)
}

// StatusJSON returns the content of test-status.json.
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

// ValidationResult is the verdict of the validation gate. Preflight is nil if the configuration asks for no static
// checks.
type ValidationResult struct {
	OK        bool
	Preflight *PreflightResult
	Commands  []CommandResult
	Failed    []string // one sentence for each failure
}

// Validation judges the static checks of a page (nil: none) and the commands that the supervisor ran. If there are
// neither checks nor commands, the gate is skipped, so an empty configuration never passes it.
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

// Status returns "ok", "failed" or "skipped".
func (v ValidationResult) Status() string {
	if v.Preflight == nil && len(v.Commands) == 0 {
		return StatusSkipped
	}
	return okOr(v.OK, StatusFailed)
}

// ResultsJSON returns the content of validation-results.json. superloop has no browser steps as the original had. Their
// keys remain, with the value null.
func (v ValidationResult) ResultsJSON(loopID string, iteration int, at time.Time) []byte {
	return pretty(members{{"generated_at", stamp(at)}, {"loop_id", loopID}, {"iteration", iteration}, {"ok", v.OK}, {"status", v.Status()},
		{"preflight", v.Preflight}, {"smoke_tests", nil}, {"automated_checklist", nil}, {"agent_browser", nil},
		{"commands", commandList(v.Commands)}, {"failed", orEmpty(v.Failed)}})
}
