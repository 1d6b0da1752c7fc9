package gate

import (
	"bytes"
	"fmt"
	"time"
)

// CommandResult is how one command of the tests or of the validation ended, as
// the supervisor that ran it saw it.
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

// Code is the exit code as a shell would tell it: 0 only for success, 124 for a
// time-out, 128+n for signal n, 127 for a command that could not be started.
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

// signalNumber gives the numbers that all systems share; 0 for another name.
func signalNumber(name string) int {
	switch name {
	case "SIGHUP", "HUP", "hangup":
		return 1
	case "SIGINT", "INT", "interrupt":
		return 2
	case "SIGQUIT", "QUIT", "quit":
		return 3
	case "SIGILL", "ILL":
		return 4
	case "SIGTRAP", "TRAP":
		return 5
	case "SIGABRT", "ABRT", "aborted":
		return 6
	case "SIGFPE", "FPE":
		return 8
	case "SIGKILL", "KILL", "killed":
		return 9
	case "SIGSEGV", "SEGV", "segmentation fault":
		return 11
	case "SIGPIPE", "PIPE", "broken pipe":
		return 13
	case "SIGALRM", "ALRM":
		return 14
	case "SIGTERM", "TERM", "terminated":
		return 15
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
	out := make([]commandJSON, 0, len(results))
	for _, c := range results {
		out = append(out, commandJSON{c.Command, !c.Failed(), c.Code(), c.Signal, c.TimedOut, c.Error,
			c.Duration.Milliseconds()})
	}
	return out
}

// TestsResult is the verdict over the test commands. ExitCode is that of the
// first command that failed, so it is 0 exactly when none did.
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
	switch {
	case t.Skipped:
		return StatusSkipped
	case t.OK:
		return StatusOK
	}
	return StatusFailed
}

// StatusJSON is test-status.json.
func (t TestsResult) StatusJSON(at time.Time) []byte {
	if t.Skipped {
		return pretty(struct {
			OK          bool   `json:"ok"`
			Skipped     bool   `json:"skipped"`
			GeneratedAt string `json:"generated_at"`
		}{true, true, stamp(at)})
	}
	return pretty(struct {
		OK          bool          `json:"ok"`
		ExitCode    int           `json:"exit_code"`
		GeneratedAt string        `json:"generated_at"`
		Failed      string        `json:"failed_command,omitempty"`
		Commands    []commandJSON `json:"commands"`
	}{t.OK, t.ExitCode, stamp(at), t.Failed, commandList(t.Commands)})
}

// OutputText is test-output.txt: per command "$ command", its output,
// "exit_code: N" and an empty line. How much output there is was decided where
// it was captured.
func (t TestsResult) OutputText() []byte {
	var b bytes.Buffer
	for _, c := range t.Commands {
		fmt.Fprintf(&b, "$ %s\n", c.Command)
		b.Write(c.Output)
		if n := len(c.Output); n > 0 && c.Output[n-1] != '\n' {
			b.WriteByte('\n')
		}
		switch {
		case c.TimedOut:
			fmt.Fprintf(&b, "ended: timed out after %s\n", c.Duration.Round(time.Millisecond))
		case c.Error != "":
			fmt.Fprintf(&b, "ended: not started: %s\n", oneLine(c.Error, maxItem))
		case c.Signal != "":
			fmt.Fprintf(&b, "ended: by %s\n", c.Signal)
		}
		fmt.Fprintf(&b, "exit_code: %d\n\n", c.Code())
	}
	return b.Bytes()
}
