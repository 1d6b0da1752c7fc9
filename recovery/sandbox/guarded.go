package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// shimFiles are the descriptors from orderFD on that are the shim's own.
const shimFiles = 2

// agentOrder is an order to the shim to prepare what agents see, and to become the spawner process that starts them in
// it.
type agentOrder struct {
	Path  bytesOf    `json:"path"`
	Argv  []bytesOf  `json:"argv"`
	Env   []bytesOf  `json:"env"`
	Level proc.Level `json:"level"`

	ReadOnly []bytesOf `json:"read_only"`
	Writable []bytesOf `json:"writable"`
	Hidden   []bytesOf `json:"hidden"`
	Tmp      bytesOf   `json:"tmp"` // where agents make temporary files
	// UserNS: the shim was started in a user namespace of its own, by this user and group.
	UserNS bool `json:"userns"`
	User   int  `json:"user"`
	Group  int  `json:"group"`
}

// guarded is what Protect returns: a second Spawner, whose spawner process lives in the mounts that agents see.
type guarded struct {
	Spawner
	inner *proc.Spawner
	p     Protection
	ns    proc.Namespaces
	exe   string

	running sync.Mutex // guards what follows
	paths   []string   // the places, and all directories that they lie in
	seen    []FileID   // of the paths, when the mounts were made; nil without mounts
	tmp     string
	said    report
}

// newGuarded prepares the first spawner process.
func newGuarded(s Spawner, p Protection, ns proc.Namespaces, exe string) (*guarded, error) {
	g := &guarded{Spawner: s, p: p, ns: ns, exe: exe, tmp: tmpOf(os.Environ())}
	for _, path := range slices.Concat(p.ReadOnly, p.Writable, p.Hidden) {
		for ; path != "/" && !slices.Contains(g.paths, path); path = filepath.Dir(path) {
			g.paths = append(g.paths, path)
		}
	}
	var err error
	g.inner, err = s.Inside(g.launch)
	return g, err
}

// Level is what holds the trees of agents together.
func (g *guarded) Level() proc.Level { return g.inner.Level() }

// Notes says why it is not a better one.
func (g *guarded) Notes() []string { return g.inner.Notes() }

// Run starts the command where everything is prepared. What was prepared for other files than those that are at the
// places now is prepared anew.
func (g *guarded) Run(kill context.Context, spec proc.Spec) (proc.Result, error) {
	res := proc.Result{Code: -1, Ended: proc.NotStarted}
	if !g.running.TryLock() {
		res.Err = proc.ErrBusy
		return res, proc.ErrBusy
	}
	defer g.running.Unlock()
	if tmp := tmpOf(spec.Env); len(spec.Argv) > 0 && kill.Err() == nil && (tmp != g.tmp || !slices.Equal(g.seen, g.look())) {
		g.tmp = tmp
		if err := g.inner.Renew(); err != nil {
			if errors.Is(err, proc.ErrClosed) {
				res.Err = err
				return res, err
			}
			res.Err = fmt.Errorf("starting %s: its protection was not set up: %w", spec.Argv[0], err)
			return res, nil
		}
	}
	return g.inner.Run(kill, spec)
}

// look is what is at the paths.
func (g *guarded) look() []FileID {
	ids := make([]FileID, len(g.paths))
	for i, path := range g.paths {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			ids[i] = FileID{Dev: uint64(st.Dev), Ino: st.Ino}
		}
	}
	return ids
}

// launch has the shim become a spawner process.
func (g *guarded) launch(b proc.Become) (proc.Launch, error) {
	wire, err := openLine()
	if err != nil {
		return proc.Launch{}, err
	}
	// Before the mounts are made, so that what is replaced meanwhile is noticed. What is mounted over keeps its inode,
	// so no other file can come to have the number.
	g.seen = g.look()
	o := &order{Agent: &agentOrder{
		Path: bytesOf(g.exe), Argv: convert[bytesOf](b.Argv), Env: convert[bytesOf](b.Env), Level: b.Level, Tmp: bytesOf(g.tmp),
		ReadOnly: convert[bytesOf](g.p.ReadOnly), Writable: convert[bytesOf](g.p.Writable), Hidden: convert[bytesOf](g.p.Hidden),
		UserNS: g.ns.User, User: os.Geteuid(), Group: os.Getegid(),
	}}
	if err := wire.send(o); err != nil {
		wire.close()
		return proc.Launch{}, err
	}
	return proc.Launch{
		Argv: []string{g.exe, ShimArg}, Env: []string{"GOGC=off", "GOMAXPROCS=1"}, Files: wire.theirs, Namespaces: g.ns,
		Done: func(err error) error {
			defer wire.close()
			if err = g.launched(wire, err); err != nil {
				g.seen = nil
			}
			return err
		},
	}, nil
}

// launched takes the shim's report. err is why there is no spawner process.
func (g *guarded) launched(wire *line, err error) error {
	var fork *fs.PathError
	var no syscall.Errno
	if errors.As(err, &fork) && errors.As(err, &no) {
		return fmt.Errorf("starting the process that runs them in namespaces of its own: %w", no)
	}
	rep, silent := wire.report()
	switch {
	case rep.Failure != "":
		return errors.New(rep.Text)
	case err != nil:
		return err
	case silent != nil:
		return silent
	}
	g.said = rep
	return nil
}

// tmpOf is where programs with this environment make temporary files.
func tmpOf(env []string) string {
	dir := "/tmp"
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "TMPDIR="); ok && filepath.IsAbs(value) {
			dir = value
		}
	}
	return dir
}
