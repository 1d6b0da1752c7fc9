package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/loop/worktree"
)

// The exit codes of the contract (docs/reference.md). Unknown codes mean failure.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitConfig      = 3
	exitNothing     = 4
	exitHuman       = 5
	exitNotFound    = 6
	exitHeld        = 7
	exitLimit       = 8
	exitStuck       = 9
	exitInterrupted = 130
	exitTerminated  = 143
)

// fault is an error that an operator reads: what failed, and what to type next.
type fault struct {
	code  int
	err   error
	hint  string
	quiet bool // it was told already; only the code is left to give
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// failf makes a fault; hint is the next command to type, or "".
func failf(code int, hint, format string, args ...any) *fault {
	return &fault{code: code, err: fmt.Errorf(format, args...), hint: hint}
}

// silent is an exit code for something that has been said.
func silent(code int) *fault { return &fault{code: code, err: errors.New("exit"), quiet: true} }

// failedUnless is how a verb ends that has told what it found: err, else exit code 1 unless all is well.
func failedUnless(well bool, err error) error {
	if err == nil && !well {
		return silent(exitFailed)
	}
	return err
}

// classify is the one table from errors to exit codes.
func classify(err error) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	var (
		held     *local.HeldError
		cfg      *config.Error
		corrupt  *journal.CorruptError
		tampered *journal.TamperedError
		changed  *durable.ChangedError
	)
	switch {
	case errors.As(err, &held):
		return &fault{code: exitHeld, err: err, hint: "superloop status --loop " + held.LoopID +
			"   (or `superloop cancel --loop " + held.LoopID + "` to end it)"}
	case errors.As(err, &cfg):
		return &fault{code: exitConfig, err: err, hint: cfg.Hint()}
	case errors.Is(err, worktree.ErrNotRepo):
		return &fault{code: exitConfig, err: err, hint: "git init"}
	case errors.As(err, &tampered):
		return &fault{code: exitFailed, err: err, hint: "superloop events --verify   (superloop run --fresh begins anew and keeps what is there)"}
	case errors.As(err, &corrupt):
		return &fault{code: exitFailed, err: err, hint: "superloop events --verify"}
	case errors.As(err, &changed):
		return &fault{code: exitFailed, err: err, hint: "git status   (something else than superloop changes its files; superloop run --fresh begins anew)"}
	case durable.IsFull(err):
		return &fault{code: exitFailed, err: err, hint: "df -h ."}
	case errors.Is(err, context.Canceled):
		return &fault{code: exitInterrupted, err: err}
	}
	return &fault{code: exitFailed, err: err}
}

// tell prints a fault: for people with its hint on a line of its own, for scripts as one JSON object.
func tell(w io.Writer, f *fault, asJSON bool) {
	if f.quiet {
		return
	}
	if asJSON {
		type body struct {
			Code     int              `json:"code"`
			Message  string           `json:"message"`
			Hint     string           `json:"hint,omitempty"`
			Problems []config.Problem `json:"problems,omitempty"`
		}
		b := body{Code: f.code, Message: f.Error(), Hint: f.hint}
		var cfg *config.Error
		if errors.As(f.err, &cfg) {
			b.Problems = cfg.Problems
		}
		line, err := json.Marshal(map[string]body{"error": b})
		if err == nil {
			fmt.Fprintln(w, string(line))
			return
		}
	}
	fmt.Fprintf(w, "superloop: %s\n", strings.TrimRight(f.Error(), "\n"))
	if f.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", f.hint)
	}
}
