package sandbox

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

// Wall returns why this system cannot keep agents from TCP ports, or nil if its kernel has what that needs. Whether the
// wall stands in front of the agents of a run is in their ProtectionReport; whether it holds, TryWall measures.
func Wall() error {
	if err := canWall(); err != nil {
		return fmt.Errorf("agents cannot be kept from TCP ports on this system: %w; superloop doctor says what they reach", err)
	}
	return nil
}

// ports returns what Ports returns, or none.
func (p Protection) ports() []uint16 {
	if p.Ports == nil {
		return nil
	}
	return p.Ports()
}

// KnockArg is the hidden first argument that makes the superloop binary try to get through the wall. main (and TestMain
// of every package whose tests call TryWall) checks for it and calls KnockMain.
const KnockArg = "__knock"

// KnockMain is the complete program that tries. Its arguments are those behind KnockArg.
func KnockMain(args []string) int { return knock(args) }

// Attempt is one way to get through the wall, and what came of it.
type Attempt struct {
	Way     string `json:"way"`
	Through bool   `json:"through"`
	// Said is the error of the kernel. That it does not have a way is what the wall says, too.
	Said string `json:"said,omitempty"`
}

// The words of the child for Attempt.Through.
const (
	throughWord = "through"
	refusedWord = "refused"
)

// Siege is what TryWall has found out.
type Siege struct {
	Attempts []Attempt `json:"attempts,omitempty"`
	Err      string    `json:"error,omitempty"` // why the attempts could not be made, or show nothing
}

// Got returns the ways that got through.
func (s Siege) Got() (ways []string) {
	for _, a := range s.Attempts {
		if a.Through {
			ways = append(ways, a.Way)
		}
	}
	return ways
}

// Holds reports whether attempts were made and none of them got through.
func (s Siege) Holds() bool { return s.Err == "" && len(s.Attempts) > 0 && len(s.Got()) == 0 }

// gift begins a note.
const gift = "port %d of superloop's daemon can become that of an agent that listens on any port"

// siegeLimit bounds the attempts together. They take some 50 ms.
const siegeLimit = 20 * time.Second

// TryWall does what Protect does, and tries whether the agents of this Protection reach a port for which the wall is
// built: TryWall listens on one of its own besides, and starts a child as an agent is started, which tries each way that
// is known to lead around a wall. The child also looks whether it sees anything in the directories p.Hidden. The Siege
// shows something only if the level is ProtectMount.
func TryWall(ctx context.Context, s Spawner, p Protection) (ProtectionReport, Siege) {
	closed, err := listen()
	if err != nil {
		_, rep := Protect(ctx, s, p)
		return rep, Siege{Err: err.Error()}
	}
	defer closed.close()
	own := p.ports()
	p.Ports = func() []uint16 { return append(slices.Clone(own), closed.port) }
	with, rep := Protect(ctx, s, p)
	rep.Walled = slices.DeleteFunc(rep.Walled, func(port uint16) bool { return port == closed.port })
	rep.Notes = slices.DeleteFunc(rep.Notes, func(note string) bool { return strings.HasPrefix(note, fmt.Sprintf(gift, closed.port)) })
	if rep.Level != ProtectMount {
		return rep, Siege{Err: "agents are not protected"}
	}
	siege := besiege(ctx, with, closed, p.Hidden)
	if err := canWall(); err != nil && len(rep.Walled) == 0 {
		siege.Err = clip(err.Error())
	}
	return rep, siege
}

// besiege starts the child that tries to reach closed. It also has to reach a second port, so that an outcome says
// something.
func besiege(ctx context.Context, with Spawner, closed *gate, hidden []string) Siege {
	fail := func(err error) Siege { return Siege{Err: clip(err.Error())} }
	open, err := listen()
	if err != nil {
		return fail(err)
	}
	defer open.close()
	exe, err := shimExe()
	if err != nil {
		return fail(err)
	}
	self, _, err := door.OpenOwn(exe)
	if err != nil {
		return fail(err)
	}
	defer self.Close()
	// The program is a descriptor, because its path may lead through a directory that agents do not see.
	const script = `"$0" "$@"; said=$( ( "$0" "$1" orphan "$3" & ) ); printf '%s\n' "$said"`
	argv := append([]string{"/bin/sh", "-c", script, "/proc/self/fd/3", KnockArg, strconv.Itoa(int(open.port)), strconv.Itoa(int(closed.port))}, hidden...)
	res, err := with.Run(ctx, proc.Spec{Argv: argv, Dir: "/", Env: []string{"PATH=/usr/bin:/bin", "GOGC=off", "GOMAXPROCS=1"},
		Files: []*os.File{self}, Timeout: siegeLimit, Grace: time.Second})
	switch {
	case err != nil:
		return fail(err)
	case res.Err != nil:
		return fail(res.Err)
	case res.Ended != proc.Exited || res.Code != 0:
		return fail(fmt.Errorf("the child that tries ended by itself (%s, code %d): %s", res.Ended, res.Code, strings.TrimSpace(res.Stderr.Text())))
	}
	siege, reached, want := Siege{}, false, wayCount
	if len(hidden) > 0 {
		want++
	}
	for line := range strings.Lines(res.Stdout.Text()) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(f) != 3 || f[1] != throughWord && f[1] != refusedWord {
			return fail(fmt.Errorf("the child that tries said %q", text.Cut(line, maxNote)))
		}
		if f[0] == control {
			reached = f[1] == throughWord
			continue
		}
		siege.Attempts = append(siege.Attempts, Attempt{Way: f[0], Through: f[1] == throughWord, Said: f[2]})
	}
	switch {
	case !reached:
		siege.Err = "the child that tries could not reach a port that nothing closes, so this shows nothing"
	case len(siege.Attempts) != want:
		siege.Err = fmt.Sprintf("the child made %d attempts, not %d, so this shows nothing", len(siege.Attempts), want)
	}
	return siege
}

const (
	control      = "a port that is open"
	orphan       = "an orphan"
	privateState = "the private state" // only if there is something to see
	wayCount     = 13                  // the attempts of the child, without control and privateState
)

// gate listens on the same port of several addresses of the loopback device. The kernel completes each connection
// without an accept. It does without package net, whose initialization would come before the shim (see early.go).
type gate struct {
	port    uint16
	sockets []int
}
