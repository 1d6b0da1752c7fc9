package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	// ErrSpawnerLost: the spawner process died while it ran a command. How the command ended is not known; what could
	// be found of its tree was ended. The next Run starts a new spawner process.
	ErrSpawnerLost = errors.New("the spawner process was lost")
	// ErrBusy: a Spawner runs one tree at a time, and one is running.
	ErrBusy   = errors.New("this spawner already runs a command")
	ErrClosed = errors.New("this spawner is closed") // ErrClosed: Close was called.
)

// Options say how to start a Spawner. The zero value is the usual one.
type Options struct {
	Level Level // the highest to try; "" is the best there is. If it cannot be had the next lower one is taken: see Notes
}

// Spawner runs commands, one tree at a time; for two at the same time start two. All methods may be called from any
// goroutine.
type Spawner struct {
	exe                    string // the binary whose main calls SpawnerMain
	want                   Level
	launch                 Launcher      // nil: the binary itself is started
	killLimit, answerLimit time.Duration // the constants of these names; shorter in tests
	running                sync.Mutex    // held by Run

	mu     sync.Mutex // guards what follows
	h      *helper    // nil: to be started by the next Run
	level  Level
	notes  []string
	closed bool
	inside []*Spawner // see Inside
}

// Start starts the spawner process and measures which Level holds here. It takes about as long as the start of the
// binary.
func Start(o Options) (*Spawner, error) {
	if os.Getenv(spawnerEnv) != "" {
		return nil, fmt.Errorf("starting the spawner process: this is the spawner process; main must call proc.SpawnerMain when the first argument is %s", SpawnerArg)
	}
	exe := "/proc/self/exe" // the very file that runs, even if it was replaced by an upgrade since
	if runtime.GOOS != "linux" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("finding our own binary: %w", err)
		}
	}
	s := &Spawner{exe: exe, want: o.Level, killLimit: killLimit, answerLimit: answerLimit}
	if _, err := s.ensure(); err != nil {
		return nil, err
	}
	return s, nil
}

// Probe says which level holds on this system, and why none above it does.
func Probe(o Options) (Level, []string, error) {
	s, err := Start(o)
	if err != nil {
		return "", nil, err
	}
	return s.Level(), s.Notes(), s.Close()
}

// ensure returns the spawner process, started if there is none.
func (s *Spawner) ensure() (*helper, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.h != nil {
		return s.h, nil
	}
	var notes []string
	for _, l := range s.want.from() {
		h, err := startHelper(s.exe, l, s.launch)
		if err == nil {
			s.h, s.level, s.notes = h, l, notes
			return h, nil
		}
		if no, ok := errors.AsType[launchError](err); ok {
			return nil, no.error
		}
		notes = append(notes, fmt.Sprintf("%s: %v", l, err))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break // no level would answer sooner
		}
	}
	return nil, fmt.Errorf("starting the spawner process: %s", strings.Join(notes, "; "))
}

// retire makes the next Run start a new spawner process.
func (s *Spawner) retire(h *helper) {
	h.abandon()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.h == h {
		s.h = nil
	}
}

// Close ends the spawner process, and what it runs: a Run under way returns ErrSpawnerLost. It returns when that is
// done, at the latest after 12 s. Calling it again does nothing.
func (s *Spawner) Close() error {
	s.mu.Lock()
	h, inside := s.h, s.inside
	s.h, s.inside, s.closed = nil, nil, true
	s.mu.Unlock()
	for _, in := range inside {
		_ = in.Close()
	}
	if h == nil {
		return nil
	}
	limit := reapLimit
	if s.running.TryLock() {
		limit = idleLimit
		s.running.Unlock()
	}
	h.close(limit)
	return nil
}

// Level is what holds the trees of this Spawner together.
func (s *Spawner) Level() Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// Notes says of each level that was tried and cannot be had here, why.
func (s *Spawner) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notes)
}
