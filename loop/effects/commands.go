package effects

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/roles/agent"
)

const (
	// commandLog caps, in bytes, what one command leaves in the file of its output.
	commandLog = 64 << 20
	// commandGrace is what the processes of a command get between TERM and KILL.
	commandGrace = 15 * time.Second
)

// commands runs shell commands one after the other as process trees of their own and writes what they print to out.
// Each may take timeout, all together what the loop has left. The bool says that ctx has ended and cut them short.
func (h *Host) commands(ctx context.Context, s loop.State, who string, cmds []string, timeout time.Duration, leftMS int64, out io.Writer) ([]gate.CommandResult, bool, error) {
	env := agent.Environment(h.Env(), agent.Request{WorkDir: h.Repo.Top, Repo: h.Paths.Repo, LoopDir: h.Paths.Loop,
		Loop: h.LoopID, RunID: s.RunID, Role: who, Iteration: s.Iteration, Attempt: 1})
	shell, err := proc.LookPath("bash", env)
	if err != nil {
		if shell, err = proc.LookPath("sh", env); err != nil {
			return nil, false, fmt.Errorf("running the %s: %w", who, err)
		}
	}
	begun := h.Clock()
	sum := &counted{w: out}
	out = sum
	var results []gate.CommandResult
	for _, cmd := range cmds {
		limit := leftMS
		if limit > 0 {
			limit = max(1, limit-h.Clock().Sub(begun).Milliseconds())
		}
		bound, _ := capTimeout(timeout, limit)
		fmt.Fprintf(out, "$ %s\n", cmd)
		end := &lastByte{w: out}
		from := sum.n
		feed, said := agent.Follow(h.Says(who))
		res, runErr := h.Runner.Run(ctx, proc.Spec{Argv: []string{shell, "-c", cmd}, Dir: h.Repo.Top, Env: env, Timeout: bound,
			Grace: commandGrace, Hurry: Hurry(ctx), Log: end, LogLimit: commandLog, Stdout: feed, Stderr: feed, Marker: Mark(s.RunID)})
		said()
		if res.Ended == proc.Killed {
			fmt.Fprintf(out, "%sinterrupted\n", end.newline())
			return results, true, nil
		}
		r := gate.CommandResult{From: from, To: sum.n, Command: cmd, ExitCode: res.Code, Signal: res.Signal, TimedOut: res.Ended == proc.TimedOut,
			Duration: res.Duration, Output: []byte(res.Stdout.Text() + res.Stderr.Text())}
		switch {
		case res.Ended == proc.NotStarted && res.Err != nil:
			r.Error = res.Err.Error()
		case runErr != nil:
			r.Error = runErr.Error()
		}
		if r.Error != "" {
			fmt.Fprintf(out, "%s%s\n", end.newline(), r.Error)
		}
		if r.TimedOut {
			fmt.Fprintf(out, "%stimed out after %s\n", end.newline(), bound)
		}
		if _, err := fmt.Fprintf(out, "%sexit_code: %d\n\n", end.newline(), r.Code()); err != nil {
			return nil, false, err
		}
		results = append(results, r)
	}
	return results, false, nil
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// lastByte remembers whether what was written ended a line.
type lastByte struct {
	w    io.Writer
	last byte
}

func (l *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.last = p[len(p)-1]
	}
	return l.w.Write(p)
}

// newline is what has to come before the next line, once.
func (l *lastByte) newline() string {
	if l.last == '\n' || l.last == 0 {
		return ""
	}
	l.last = '\n'
	return "\n"
}
