package execute

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/sandbox"
)

func TestEveryEnd(t *testing.T) {
	t.Parallel()
	box := sandbox.Sandbox{Level: sandbox.Mount, LandlockABI: 5, Notes: []string{"n"}}
	refused := &sandbox.RefusedError{Required: sandbox.Landlock, Sandbox: sandbox.Sandbox{Level: sandbox.None, LandlockABI: 1, Notes: []string{"no kernel"}}}
	for name, c := range map[string]struct {
		res  sandbox.Result
		err  error
		want Outcome
		ok   bool
	}{
		"well":             {sandbox.Result{Ended: proc.Exited}, nil, Outcome{End: Exited}, true},
		"an exit code":     {sandbox.Result{Ended: proc.Exited, Code: 3}, nil, Outcome{End: Exited, Code: 3}, false},
		"not executable":   {sandbox.Result{Ended: proc.Exited, Code: 126}, nil, Outcome{End: Exited, Code: 126, Error: "exit code 126: bash found nothing that it could run"}, false},
		"not found":        {sandbox.Result{Ended: proc.Exited, Code: 127}, nil, Outcome{End: Exited, Code: 127, Error: "exit code 127: bash found nothing that it could run"}, false},
		"125 is its own":   {sandbox.Result{Ended: proc.Exited, Code: 125}, nil, Outcome{End: Exited, Code: 125}, false},
		"128 is its own":   {sandbox.Result{Ended: proc.Exited, Code: 128}, nil, Outcome{End: Exited, Code: 128}, false},
		"a signal":         {sandbox.Result{Ended: proc.Exited, Code: -1, Signal: "SIGSEGV"}, nil, Outcome{End: Exited, Code: -1, Signal: "SIGSEGV"}, false},
		"a signal, code 0": {sandbox.Result{Ended: proc.Exited, Signal: "SIGSEGV"}, nil, Outcome{End: Exited, Signal: "SIGSEGV"}, false},
		"not all killed":   {sandbox.Result{Ended: proc.Exited, Code: 127, Err: errors.New("2 are left")}, nil, Outcome{End: Exited, Code: 127, Error: "2 are left"}, false},
		"time":             {sandbox.Result{Ended: proc.TimedOut, Code: -1, Signal: "SIGKILL", Err: errors.New("x")}, nil, Outcome{End: TimedOut, Code: -1, Signal: "SIGKILL", Error: "timed out after 1m30s"}, false},
		"output":           {sandbox.Result{Ended: sandbox.OutputLimit}, nil, Outcome{End: OutputLimit, Error: "stopped: it printed more than 64 MiB"}, false},
		"killed":           {sandbox.Result{Ended: proc.Killed}, nil, Outcome{End: Killed, Error: "ended because superloop had to leave"}, false},
		"not started":      {sandbox.Result{Ended: proc.Killed, Code: 0}, errors.New("no bash"), Outcome{End: NotStarted, Code: -1, Error: "no bash"}, false},
		"lost":             {sandbox.Result{Ended: proc.Lost}, fmt.Errorf("x: %w", proc.ErrSpawnerLost), Outcome{End: Lost, Code: -1, Error: "nobody knows how it ended: x: the spawner process was lost"}, false},
	} {
		c.res.Sandbox = box
		c.want.Sandbox = box
		got := outcomeOf(c.res, c.err, 90*time.Second)
		if !reflect.DeepEqual(got, c.want) || got.OK() != c.ok {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	got := outcomeOf(sandbox.Result{Ended: proc.NotStarted, Sandbox: box}, fmt.Errorf("running: %w", refused), 0)
	if got.End != NotStarted || got.Error != "running: "+refused.Error() || got.Sandbox.Level != sandbox.None || len(got.Sandbox.Notes) != 1 || got.Sandbox.Notes[0] != "no kernel" || got.Sandbox.LandlockABI != 5 {
		t.Errorf("%+v", got)
	}
	if (Outcome{Changed: "x", End: Exited}).OK() {
		t.Error("what was not begun went well")
	}
}

func TestWhatAnEventHasOfAnOutput(t *testing.T) {
	t.Parallel()
	// text has another letter at each place that is looked at.
	text := func(n int) string { return strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", n/36+1)[:n] }
	split := func(s string, at int) proc.Capture {
		return proc.Capture{Head: []byte(s[:at]), Tail: []byte(s[at:]), Bytes: int64(len(s))}
	}
	short, exact, long := text(100), text(4096), text(4097)
	for name, c := range map[string]struct {
		in         proc.Capture
		head, tail string
	}{
		"nothing":         {proc.Capture{}, "", ""},
		"short":           {split(short, 100), "", short},
		"short, in two":   {split(short, 40), "", short},
		"exactly":         {split(exact, 2000), "", exact},
		"one more":        {split(long, 2000), long[:1024], long[1025:]},
		"left out":        {proc.Capture{Head: []byte(text(3000)), Tail: []byte(text(5000)), Truncated: true, Bytes: 1 << 20}, text(3000)[:1024], text(5000)[5000-3072:]},
		"left out, small": {proc.Capture{Head: []byte("ab"), Tail: []byte("yz"), Truncated: true, Bytes: 100}, "ab", "yz"},
	} {
		o := outcomeOf(sandbox.Result{Output: c.in}, nil, 0)
		if o.Head != c.head || o.Tail != c.tail {
			t.Errorf("%s: %d and %d bytes", name, len(o.Head), len(o.Tail))
		}
		if o.Output.Bytes != c.in.Bytes {
			t.Errorf("%s: %d", name, o.Output.Bytes)
		}
	}
}

func TestTheWordsOfEvents(t *testing.T) {
	t.Parallel()
	for end, reason := range map[End]proc.Reason{Exited: proc.Exited, TimedOut: proc.TimedOut, OutputLimit: sandbox.OutputLimit, Killed: proc.Killed, NotStarted: proc.NotStarted, Lost: proc.Lost} {
		if string(end) != string(reason) {
			t.Errorf("%s, %s", end, reason)
		}
	}
}
