package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/loop/worktree"
)

// The exit codes that docs/reference.md promises. Any other code means failure.
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

// fault is an error for an operator: what failed, which exit code it gives, and what to type next.
type fault struct {
	code  int
	err   error
	hint  string
	quiet bool // the verb has printed the error already; only the exit code counts
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// failf makes a fault. hint is the next command to type, or "".
func failf(code int, hint, format string, args ...any) *fault {
	return &fault{code: code, err: fmt.Errorf(format, args...), hint: hint}
}

// silent returns a fault that prints nothing and only gives the exit code: the verb has printed its result already.
func silent(code int) *fault { return &fault{code: code, err: errors.New("exit"), quiet: true} }

// outcome returns the exit code of a run that has left the loop in this state, and says the state in words.
func outcome(ctx context.Context, s loop.State) (code int, what string) {
	detail := cmp.Or(s.Detail, s.Reason)
	if sig, ok := errors.AsType[errSignal](context.Cause(ctx)); ok && !s.Status.Ended() {
		what, still := "paused by "+sig.Error()+", the state is kept", map[loop.Status]string{loop.AwaitingApproval: "waiting for approval",
			loop.AwaitingHuman: "waiting for an operator: " + detail, loop.RateLimited: "limited: " + detail}[s.Status]
		if still != "" {
			what = "left by " + sig.Error() + ", still " + still
		}
		return sig.code(), what
	}
	switch s.Status {
	case loop.Paused:
		if s.Reason == loop.ReasonOnce {
			return exitLimit, fmt.Sprintf("paused, one iteration has ended (--once); %s", render.Number(s.Iteration-1, "iteration"))
		}
		return exitInterrupted, "paused by an operator, the state is kept"
	case loop.Completed:
		what = fmt.Sprintf("completed in %s, %s of work", render.Number(s.Iteration, "iteration"), render.Duration(msec(s.ActiveMS)))
		if s.Detail != "" {
			what += "; " + s.Detail
		}
		return exitOK, what
	case loop.AwaitingHuman:
		return exitHuman, "waiting for an operator: " + detail
	case loop.AwaitingApproval:
		return exitHuman, "waiting for an operator"
	case loop.LimitReached:
		return exitLimit, "limit reached: " + detail
	case loop.StuckEnd:
		return exitStuck, "stuck: " + detail
	case loop.Failed:
		return exitFailed, "failed: " + detail
	case loop.Cancelled:
		return exitFailed, "cancelled"
	}
	return exitFailed, string(s.Status) + ": " + detail
}

// failedUnless returns the result of a verb that has printed its findings: err if it is not nil, otherwise exit code 1
// unless well is true.
func failedUnless(well bool, err error) error {
	if err == nil && !well {
		return silent(exitFailed)
	}
	return err
}

// interrupted returns the error of a verb whose context has ended. A signal that ended it has an exit code of its own.
func interrupted(ctx context.Context) error {
	if sig, ok := errors.AsType[errSignal](context.Cause(ctx)); ok {
		return &fault{code: sig.code(), err: fmt.Errorf("ended by %s", sig)}
	}
	return ctx.Err()
}

// orInterrupted returns err, or the error of interrupted if ctx has ended: the end of the context explains any other
// error.
func orInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	return err
}

// reading is a reader whose Read returns when ctx ends. A plain Read would wait for the next line.
type reading struct {
	ctx context.Context
	r   io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	type got struct {
		n   int
		err error
	}
	done := make(chan got, 1)
	buf := make([]byte, len(p))
	go func() {
		n, err := r.r.Read(buf)
		done <- got{n, err}
	}()
	select {
	case g := <-done:
		return copy(p, buf[:g.n]), g.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// classify turns an error into a fault. It is the only table from errors to exit codes and hints.
func classify(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	held, isHeld := errors.AsType[*local.HeldError](err)
	cfg, isConfig := errors.AsType[*config.Error](err)
	original, isOriginal := errors.AsType[*local.OriginalError](err)
	_, corrupt := errors.AsType[*journal.CorruptError](err)
	_, tampered := errors.AsType[*journal.TamperedError](err)
	_, changed := errors.AsType[*durable.ChangedError](err)
	lost, isLost := errors.AsType[*worktree.LostError](err)
	f := &fault{code: exitFailed, err: err}
	switch {
	case isHeld:
		f.code, f.hint = exitHeld, fmt.Sprintf("superloop attach --loop %[1]s   (to see what it does; `superloop cancel --loop %[1]s` ends it)", held.LoopID)
	case isConfig:
		f.code, f.hint = exitConfig, cfg.Hint()
	case isLost:
		f.code, f.hint = exitHuman, strings.TrimPrefix(lost.Fix+", then: superloop run", ", then: ")
		if errors.Is(err, worktree.ErrNotRepo) {
			f.code = exitConfig
		}
	case errors.Is(err, worktree.ErrNotRepo):
		f.code, f.hint = exitConfig, "git init"
	case isOriginal:
		f.hint = fmt.Sprintf("superloop run --fresh --loop %s", original.LoopID)
	case tampered:
		f.hint = "superloop events --verify   (superloop run --fresh begins anew and keeps what is there)"
	case corrupt:
		f.hint = "superloop events --verify"
	case changed:
		f.hint = "git status   (something else than superloop changes its files; superloop run --fresh begins anew)"
	case durable.IsFull(err):
		f.hint = "df -h ."
	case errors.Is(err, context.Canceled):
		f.code = exitInterrupted
	default:
		f.hint = "superloop doctor"
	}
	return f
}

// tell prints a fault: as text with the hint on a line of its own, or with asJSON as one JSON object. An error may quote
// what an agent has written, so the text has no control characters.
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
		if cfg, ok := errors.AsType[*config.Error](f.err); ok {
			b.Problems = cfg.Problems
		}
		line, err := json.Marshal(map[string]body{"error": b})
		if err == nil {
			fmt.Fprintln(w, string(line))
			return
		}
	}
	fmt.Fprintf(w, "superloop: %s\n", strings.TrimRight(text.Plain(f.Error()), "\n"))
	if f.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", f.hint)
	}
}

// ownCommand matches a command of superloop in a hint, with up to two words of its verb.
var ownCommand = pattern.Lazy(`\bsuperloop ([a-z-]+)( [a-z-]+)?`)

// here returns a hint whose superloop commands work where the operator has typed this one. The operator may have named
// the repository with --repo. Then here adds the flag, as it was typed, to each command that takes it and does not have
// it. Every hint that superloop prints goes through here.
func (a *app) here(hint string) string {
	if a.repoFlag == "" {
		return hint
	}
	var out strings.Builder
	for {
		at := ownCommand().FindStringSubmatchIndex(hint)
		if at == nil {
			return out.String() + hint
		}
		verb, sub := hint[at[2]:at[3]], ""
		if at[4] >= 0 {
			sub = strings.TrimSpace(hint[at[4]:at[5]])
		}
		end, takes := at[3], false
		for _, cmd := range a.commands() {
			if cmd.Name != verb {
				continue
			}
			takes = hasRepo(cmd)
			for _, s := range cmd.Subcommands {
				if s.Name == sub {
					end, takes = at[5], hasRepo(s)
				}
			}
		}
		out.WriteString(hint[:end])
		rest := hint[end:]
		next := rest
		if i := strings.Index(rest, "superloop "); i >= 0 {
			next = rest[:i]
		}
		if takes && !strings.Contains(next, " --repo ") {
			out.WriteString(" --repo " + text.Word(a.repoFlag))
		}
		hint = rest
	}
}

func hasRepo(cmd *cli.Command) bool {
	for _, f := range cmd.Flags {
		if f.Names()[0] == "repo" {
			return true
		}
	}
	return false
}
