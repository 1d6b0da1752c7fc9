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

// Protection is what is kept from the agents that run through a protected Spawner. All paths are absolute, and lead
// through no symbolic link that the agent could replace. Where one lies in another, the deeper one decides.
type Protection struct {
	// ReadOnly are directories and files that may be read and not changed, replaced, renamed or removed. One that lies
	// in a place of Writable may be missing, and is not protected then. A file that is replaced from outside while an
	// agent runs is no longer protected from that agent; a directory is, whatever happens in it.
	ReadOnly []string
	Writable []string // directories inside of ReadOnly where agents write
	// Hidden are directories and files in whose place there is nothing. One that is missing stays so only if nobody
	// makes it.
	Hidden []string
}

// The levels of a ProtectionReport. They are among the words that Level has.
const (
	ProtectNone  = string(None)
	ProtectMount = string(Mount)
)

// ProtectionReport says what was achieved, by setting all of it up and trying to undo it.
type ProtectionReport struct {
	// Level is ProtectNone: an agent can change whatever its user can, or ProtectMount: the Protection holds.
	Level string `json:"level"`
	// Notes say what could not be had and why, what agents notice, and what they can still do.
	Notes  []string `json:"notes,omitempty"`
	UserNS bool     `json:"userns"` // the mounts need a user namespace
}

// Protect returns a Spawner whose commands run as p says, and otherwise exactly as through s: same arguments,
// environment, directory, streams, user, bounds and ends. All start in one mount namespace, for an ordinary user inside
// of a user namespace, and can make namespaces in there; sandboxes that agents bring themselves start. Commands that
// run through s may run at the same time. Close of the Spawner that s is ends them too. Where that cannot be had the
// Spawner is s itself and the level ProtectNone.
//
// What holds for p when Protect is called must still hold when
// something is run; else it is not started, and Result.Err says why. Files may have come, gone or been replaced at the
// places: what is there when something is run is what is protected. Nothing falls back silently. Run's commands belong
// through s, not through what Protect returns: they could not set up their own confinement in there.
func Protect(ctx context.Context, s Spawner, p Protection) (Spawner, ProtectionReport) {
	rep := ProtectionReport{Level: ProtectNone}
	none := func(err error) (Spawner, ProtectionReport) {
		rep.Notes = append(rep.Notes, clip("agents are not kept from the configuration: "+err.Error()))
		return s, rep
	}
	if ctx.Err() != nil {
		return none(context.Cause(ctx))
	}
	p, err := p.resolved()
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return none(err)
	}
	exe, err := shimExe()
	if err != nil {
		return none(err)
	}
	ns, ok := protectionNamespaces()
	if !ok {
		return none(errors.New("this system has no mount namespaces; run superloop on Linux, or in a container, where this matters"))
	}
	rep.UserNS = ns.User
	g, err := newGuarded(s, p, ns, exe)
	if err != nil {
		return none(fmt.Errorf("%w%s", err, protectionHint()))
	}
	rep.Level, rep.Notes = ProtectMount, append(rep.Notes, g.said.Notes...)
	if g.Level() != s.Level() {
		rep.Notes = append(rep.Notes, clip(fmt.Sprintf("the processes of agents are held together by %q only: %s", g.Level(), strings.Join(g.Notes(), "; "))))
	}
	return g, rep
}

// resolved is the Protection with the real paths of all places, each once.
func (p Protection) resolved() (Protection, error) {
	for _, list := range []*[]string{&p.ReadOnly, &p.Writable, &p.Hidden} {
		var out []string
		for _, path := range *list {
			if !filepath.IsAbs(path) || strings.IndexByte(path, 0) >= 0 || filepath.Clean(path) == "/" {
				return p, fmt.Errorf("%q is no absolute path below /", path)
			}
			path, err := steady(path)
			if err != nil {
				return p, err
			}
			if !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
		*list = out
	}
	return p, nil
}

// maxLinks is as many as the kernel follows.
const maxLinks = 40

// steady is path without symbolic links, as far as it exists. An error says which link on it the own user could
// replace.
func steady(path string) (string, error) {
	at, rest := "/", strings.Split(filepath.Clean(path)[1:], "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		to, err := os.Readlink(next)
		if err != nil {
			at = next // no link, or not there
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s leads through too many symbolic links", path)
		}
		if unix.Access(at, unix.W_OK) == nil {
			return "", fmt.Errorf("%s leads through the symbolic link %s, which an agent could replace; name the place by its real path", path, next)
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(filepath.Clean(to), "/"), "/"), rest...)
	}
	return at, nil
}

// check looks whether the Protection can be kept at all.
func (p Protection) check() error {
	if len(p.ReadOnly)+len(p.Hidden) == 0 {
		return errors.New("nothing was named that is to be protected")
	}
	for _, path := range slices.Concat(p.ReadOnly, p.Writable) {
		if h := slices.IndexFunc(p.Hidden, func(h string) bool { return under(path, h) }); h >= 0 {
			return fmt.Errorf("%s is to be seen, and lies in %s, which is hidden", path, p.Hidden[h])
		}
	}
	for _, path := range p.Writable {
		if !slices.ContainsFunc(p.ReadOnly, func(r string) bool { return r != path && under(path, r) }) {
			return fmt.Errorf("%s is to be writable, and does not lie in anything that is read-only", path)
		}
		if slices.Contains(p.ReadOnly, path) {
			return fmt.Errorf("%s is to be both writable and read-only", path)
		}
	}
	for _, path := range slices.Concat(p.ReadOnly, p.Writable) {
		if _, err := os.Lstat(path); err != nil && !p.optional(path) {
			return fmt.Errorf("protecting %s: %w; it has to exist before an agent starts", path, err)
		}
	}
	return nil
}

// optional reports whether a path of ReadOnly may be missing.
func (p Protection) optional(path string) bool {
	return !slices.Contains(p.Writable, path) && slices.ContainsFunc(p.Writable, func(w string) bool { return under(path, w) })
}

// shimFiles are the descriptors from orderFD on that are the shim's own.
const shimFiles = 2

// agentOrder is the part of an order to the shim to prepare what agents see, and to become the spawner process that
// starts them in it.
type agentOrder struct {
	Level proc.Level `json:"level"`
	Tmp   bytesOf    `json:"tmp"` // where agents make temporary files
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
	// Before the mounts are made, so that what is replaced meanwhile is noticed. What is mounted over keeps its inode,
	// so no other file can come to have the number.
	g.seen = g.look()
	wire, err := openLine(&order{
		Path: bytesOf(g.exe), Argv: convert[bytesOf](b.Argv), Env: convert[bytesOf](b.Env),
		Protected: convert[bytesOf](g.p.ReadOnly), Writable: convert[bytesOf](g.p.Writable), Hidden: convert[bytesOf](g.p.Hidden),
		Agent: &agentOrder{Level: b.Level, Tmp: bytesOf(g.tmp), UserNS: g.ns.User, User: os.Geteuid(), Group: os.Getegid()},
	})
	if err != nil {
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
