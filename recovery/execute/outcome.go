package execute

import (
	"errors"
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/sandbox"
)

// End says how an execution ended. The words are those of events.
type End string

// The ends.
const (
	Exited      End = "exited" // by itself: with an exit code, or by a signal
	TimedOut    End = "timeout"
	OutputLimit End = "output_limit"
	Killed      End = "killed" // because superloop had to leave
	NotStarted  End = "not_started"
	// Lost: the command was begun, and nobody knows how it ended. It is never begun again by itself.
	Lost End = "lost"
)

// Bounds of what an event has of an output, in bytes.
const (
	eventHead = 1 << 10
	eventTail = 3 << 10
)

// outcomeOf is how a run ended that had so much time.
func outcomeOf(res sandbox.Result, err error, timeout time.Duration) Outcome {
	o := Outcome{End: End(res.Ended), Code: res.Code, Signal: res.Signal, Duration: res.Duration, Output: res.Output, OutputErr: res.OutputErr,
		Sandbox: res.Sandbox, LeftBehind: res.LeftBehind, Appeared: res.Appeared}
	o.Head, o.Tail = ends(res.Output)
	switch {
	case errors.Is(err, proc.ErrSpawnerLost):
		o.End, o.Code, o.Error = Lost, -1, "nobody knows how it ended: "+err.Error()
	case err != nil:
		o.End, o.Code, o.Error = NotStarted, -1, err.Error()
		var refused *sandbox.RefusedError
		if errors.As(err, &refused) {
			o.Sandbox.Level, o.Sandbox.Notes = refused.Sandbox.Level, refused.Sandbox.Notes
		}
	case o.End == TimedOut:
		o.Error = fmt.Sprintf("timed out after %s", timeout)
	case o.End == OutputLimit:
		o.Error = fmt.Sprintf("stopped: it printed more than %d MiB", sandbox.DefaultOutputLimit>>20)
	case o.End == Killed:
		o.Error = "ended because superloop had to leave"
	case res.Err != nil:
		o.Error = res.Err.Error()
	case res.Code == 126 || res.Code == 127:
		o.Error = fmt.Sprintf("exit code %d: bash found nothing that it could run", res.Code)
	}
	return o
}

// ends are the beginning and the end of what was printed, as an event has them.
func ends(c proc.Capture) (head, tail string) {
	if c.Truncated {
		return string(c.Head[:min(len(c.Head), eventHead)]), string(c.Tail[max(0, len(c.Tail)-eventTail):])
	}
	all := string(c.Head) + string(c.Tail)
	if len(all) <= eventHead+eventTail {
		return "", all
	}
	return all[:eventHead], all[len(all)-eventTail:]
}
