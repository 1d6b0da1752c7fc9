package effects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/roles/agent"
)

const (
	commandLog   = 64 << 20         // bytes that one command leaves in the file of its output
	commandGrace = 15 * time.Second // what the processes of a command get between TERM and KILL
)

// commands runs shell commands one after the other as process trees of their own and writes what they print to one of
// the loop's files. Each may take timeout, all together what the loop has left. interrupted: ctx has ended and cut them
// short.
func (h *Host) commands(ctx context.Context, s loop.State, who, file string, cmds []string, timeout time.Duration, leftMS int64) (results []gate.CommandResult, interrupted bool, err error) {
	out, err := h.File(strings.TrimSuffix(file, filepath.Ext(file)), h.Paths.File(file))
	if err != nil {
		return nil, false, err
	}
	defer func() { err = h.Full(errors.Join(err, out.Close())) }()
	env := agent.Environment(h.Env(), h.Request(s, who, 1))
	shell, err := proc.LookPath("bash", env)
	if err != nil {
		shell, err = proc.LookPath("sh", env)
	}
	if err != nil {
		return nil, false, fmt.Errorf("running the %s: %w", who, err)
	}
	begun := h.Clock()
	end := &printed{w: out}
	for _, cmd := range cmds {
		limit := leftMS
		if limit > 0 {
			limit = max(1, limit-h.Clock().Sub(begun).Milliseconds())
		}
		bound, _ := capTimeout(timeout, limit)
		fmt.Fprintf(end, "$ %s\n", cmd)
		from := end.n
		feed, said := agent.Follow(h.Says(who))
		res, runErr := h.Runner.Run(ctx, proc.Spec{Argv: []string{shell, "-c", cmd}, Dir: h.Repo.Top, Env: env, Timeout: bound,
			Grace: commandGrace, Hurry: Hurry(ctx), Log: end, LogLimit: commandLog, Stdout: feed, Stderr: feed, Marker: Mark(s.RunID)})
		said()
		if res.Ended == proc.Killed {
			fmt.Fprintf(end, "%sinterrupted\n", end.newline())
			return results, true, nil
		}
		r := gate.CommandResult{From: from, To: end.n, Command: cmd, ExitCode: res.Code, Signal: res.Signal, TimedOut: res.Ended == proc.TimedOut,
			Duration: res.Duration, Output: []byte(res.Stdout.Text() + res.Stderr.Text())}
		if res.Ended == proc.NotStarted && res.Err != nil {
			runErr = res.Err
		}
		if runErr != nil {
			r.Error = runErr.Error()
			fmt.Fprintf(end, "%s%s\n", end.newline(), r.Error)
		}
		if r.TimedOut {
			fmt.Fprintf(end, "%stimed out after %s\n", end.newline(), bound)
		}
		if _, err := fmt.Fprintf(end, "%sexit_code: %d\n\n", end.newline(), r.Code()); err != nil {
			return nil, false, err
		}
		results = append(results, r)
	}
	return results, false, nil
}

// printed counts what is written, and remembers whether it ended a line.
type printed struct {
	w    io.Writer
	n    int64
	last byte
}

func (p *printed) Write(b []byte) (int, error) {
	if len(b) > 0 {
		p.last = b[len(b)-1]
	}
	n, err := p.w.Write(b)
	p.n += int64(n)
	return n, err
}

// newline is what has to come before the next line.
func (p *printed) newline() string {
	if p.last == '\n' || p.last == 0 {
		return ""
	}
	return "\n"
}
