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

// Protection says which paths are protected from the agents that run through a protected Spawner. All paths are
// absolute. No path may contain a symbolic link that an agent could replace. If a path lies in another one, the deeper
// path decides.
type Protection struct {
	// ReadOnly lists directories and files that agents may read but not change, replace, rename or remove. A path in a
	// directory of Writable may be missing; then it is not protected. If another process replaces a file while an agent
	// runs, the new file is not protected from this agent. A directory stays protected whatever happens in it.
	ReadOnly []string
	Writable []string // directories inside of ReadOnly in which agents may write
	// Hidden lists directories and files that agents see as empty. A missing path is not protected: if a process
	// creates it later, running agents can see it.
	Hidden []string
	// Links lists symbolic links that agents cannot replace, rename or remove. What a link leads to is not protected by
	// that. A link that leads nowhere keeps its name free: no process can make anything there.
	Links []string
	// Private lists directories that agents see empty, and in which they can make up to 64 MiB of files that nobody
	// else sees.
	Private []string
	// Ports returns the TCP ports that agents can neither connect to nor listen on, where the wall is to be had. It may
	// be nil. It is called before each start, and when it returns other ports, all is set up anew.
	Ports func() []uint16 `json:"-"`
	// Around returns what is to be protected besides, if it is not nil. It is called each time before the mounts are
	// made, by one goroutine at a time. What contradicts the rest of the Protection is left out.
	Around func() Protection `json:"-"`
}

// The levels of a ProtectionReport. They have the same names as values of Level.
const (
	ProtectNone  = string(None)
	ProtectMount = string(Mount)
)

// ProtectionReport says which protection is in force. Protect finds it out: it makes the mounts and tries to undo them.
type ProtectionReport struct {
	// Level is ProtectNone or ProtectMount. With ProtectNone an agent can change whatever its user can. With
	// ProtectMount the Protection is in force.
	Level string `json:"level"`
	// Notes say what was not available and why, what agents notice, and what agents can still do.
	Notes  []string `json:"notes,omitempty"`
	UserNS bool     `json:"userns"` // the mounts need a user namespace
	// Walled lists the ports that agents cannot reach. It is empty if Protection.Ports returned none, or if the wall is
	// not to be had; then a note says why.
	Walled []uint16 `json:"walled,omitempty"`
	// Tree is the mechanism that holds the processes of agents together. Below proc.PIDNamespace they can end and stop
	// other processes of their user, superloop included.
	Tree proc.Level `json:"tree"`
}

// Protect returns a Spawner that runs commands under the Protection p. Otherwise it runs them as s does: same
// arguments, environment, directory, streams, user, bounds and ends. All commands start in one mount namespace, for an
// ordinary user inside of a user namespace. They can make namespaces of their own, so the sandboxes of agents work.
// Commands that run through s may run at the same time. Closing the Spawner s also ends the protected commands. If the
// protection is not available, Protect returns s itself and the level ProtectNone.
//
// What Protect checks about p must also hold at each later start. Otherwise the command does not start, and Result.Err
// says why; no command runs with less protection. Files may have been added, removed or replaced at the places: the
// files that exist at the start are protected. Run must get s, not the returned Spawner, because the shim could not set
// up the confinement of a command inside of these mounts.
func Protect(ctx context.Context, s Spawner, p Protection) (Spawner, ProtectionReport) {
	rep := ProtectionReport{Level: ProtectNone, Tree: s.Level()}
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
	if err != nil && p.Around != nil {
		p.Around = nil
		without := err
		if g, err = newGuarded(s, p, ns, exe); err == nil {
			rep.Notes = append(rep.Notes, clip("what steers other programs outside of the repository is not protected: "+without.Error()))
		}
	}
	if err != nil {
		return none(fmt.Errorf("%w%s", err, proc.NamespaceHint()))
	}
	rep.Level, rep.Notes, rep.Tree, rep.Walled = ProtectMount, append(rep.Notes, g.said.Notes...), g.Level(), g.said.Walled
	if g.Level() != s.Level() {
		rep.Notes = append(rep.Notes, clip(fmt.Sprintf("the processes of agents are held together by %q only: %s", g.Level(), strings.Join(g.Notes(), "; "))))
	}
	return g, rep
}

// resolved returns the Protection with the real paths of all places, each once.
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

// whole returns the Protection with what is around it at the moment. Where the two contradict each other, p counts.
func (p Protection) whole() Protection {
	if p.Around == nil {
		return p
	}
	more := p.Around()
	own := slices.Concat(p.ReadOnly, p.Writable, p.Hidden)
	wanted := func(list []string) (out []string) {
		for _, path := range list {
			inside := slices.ContainsFunc(p.Hidden, func(h string) bool { return under(path, h) })
			if !inside && !slices.Contains(own, path) {
				out = append(out, path)
			}
		}
		return out
	}
	// A directory that contains a place of p cannot be hidden.
	apart := func(list []string) []string {
		return slices.DeleteFunc(wanted(list), func(h string) bool {
			return slices.ContainsFunc(own, func(path string) bool { return under(path, h) })
		})
	}
	p.ReadOnly, p.Writable = slices.Concat(p.ReadOnly, wanted(more.ReadOnly)), slices.Concat(p.Writable, wanted(more.Writable))
	p.Links, p.Hidden, p.Private = slices.Concat(p.Links, wanted(more.Links)), slices.Concat(p.Hidden, apart(more.Hidden)), slices.Concat(p.Private, apart(more.Private))
	return p
}

// maxLinks is the number of symbolic links that the kernel follows in one path.
const maxLinks = 40

// steady returns path with symbolic links resolved, as far as the path exists. It returns an error if path contains a
// link that the current user could replace.
func steady(path string) (string, error) {
	at, rest := "/", strings.Split(filepath.Clean(path)[1:], "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		to, err := os.Readlink(next)
		if err != nil {
			at = next // not a link, or missing
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

// check returns an error if the Protection contradicts itself, or if a path is missing that must exist.
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

// shimFiles is the number of descriptors, from orderFD on, that only the shim uses.
const shimFiles = 2

// agentOrder is the part of an order that makes the shim prepare the mounts for agents and become the spawner process
// that starts agents there.
type agentOrder struct {
	Level proc.Level `json:"level"`
	Tmp   bytesOf    `json:"tmp"` // the directory for temporary files of agents
	// UserNS says that the shim was started in a user namespace of its own. User and Group are the ids of the user who
	// started it.
	UserNS bool `json:"userns"`
	User   int  `json:"user"`
	Group  int  `json:"group"`
}

// guarded is the Spawner that Protect returns. Its spawner process runs in the mount namespace of the agents.
type guarded struct {
	Spawner
	inner *proc.Spawner
	p     Protection
	ns    proc.Namespaces
	exe   string

	running sync.Mutex // guards the following fields
	paths   []string   // the places when the mounts were made, and all directories above them
	seen    []FileID   // the identities of paths when the mounts were made; nil without mounts
	ports   []uint16   // Protection.Ports at that time
	tmp     string
	walled  bool // the wall stood once, so it has to stand
	said    report
}

// newGuarded starts the first spawner process.
func newGuarded(s Spawner, p Protection, ns proc.Namespaces, exe string) (*guarded, error) {
	g := &guarded{Spawner: s, p: p, ns: ns, exe: exe, tmp: tmpOf(os.Environ())}
	return g, g.again(func() (err error) {
		g.inner, err = s.Inside(g.launch)
		return err
	})
}

// mountTries is how often the mounts are tried. Between the look at what is around and the mounts, a place can go: a user
// edits a file, or another supervisor of the user ends and removes a link.
const mountTries = 5

// again makes the mounts, and looks at what is around anew if that fails.
func (g *guarded) again(mount func() error) (err error) {
	for range mountTries {
		if err = mount(); err == nil || errors.Is(err, proc.ErrClosed) || g.p.Around == nil {
			break
		}
	}
	return err
}

// Level returns the mechanism that holds the process trees of agents together.
func (g *guarded) Level() proc.Level { return g.inner.Level() }

// Notes says why no better mechanism is available.
func (g *guarded) Notes() []string { return g.inner.Notes() }

// Run starts the command in the prepared mounts. If other files are at the places now, or if TMPDIR or the ports
// differ, Run makes the mounts anew first.
func (g *guarded) Run(kill context.Context, spec proc.Spec) (proc.Result, error) {
	res := proc.Result{Code: -1, Ended: proc.NotStarted}
	if !g.running.TryLock() {
		res.Err = proc.ErrBusy
		return res, proc.ErrBusy
	}
	defer g.running.Unlock()
	if tmp := tmpOf(spec.Env); len(spec.Argv) > 0 && kill.Err() == nil && (tmp != g.tmp || !slices.Equal(g.seen, g.look()) || !slices.Equal(g.ports, g.p.ports())) {
		g.tmp = tmp
		if err := g.again(g.inner.Renew); err != nil {
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

// aboveAll returns paths and all directories above them, each once.
func aboveAll(paths []string) []string {
	var all []string
	known := map[string]bool{"/": true}
	for _, path := range paths {
		for ; !known[path]; path = filepath.Dir(path) {
			known[path] = true
			all = append(all, path)
		}
	}
	return all
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

// launch starts the shim, which makes the mounts and becomes the spawner process.
func (g *guarded) launch(b proc.Become) (proc.Launch, error) {
	// The identities are read before the mounts are made, so that a replacement in between is noticed. A file under a
	// mount keeps its inode number, so no other file can get this number.
	p := g.p.whole()
	g.paths = aboveAll(slices.Concat(p.ReadOnly, p.Writable, p.Hidden, p.Links, p.Private))
	g.seen, g.ports = g.look(), g.p.ports()
	wire, err := openLine(&order{
		Ports: g.ports,
		Path:  bytesOf(g.exe), Argv: convert[bytesOf](b.Argv), Env: convert[bytesOf](b.Env),
		Protected: convert[bytesOf](p.ReadOnly), Writable: convert[bytesOf](p.Writable), Hidden: convert[bytesOf](p.Hidden),
		Links: convert[bytesOf](p.Links), Private: convert[bytesOf](p.Private),
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

// launched reads the report of the shim. err says why there is no spawner process.
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
	wall := len(rep.Walled) > 0
	if g.walled && len(g.ports) > 0 && !wall {
		return fmt.Errorf("the wall stood before, and does not now: %s", strings.Join(rep.Notes, "; "))
	}
	g.said, g.walled = rep, g.walled || wall
	return nil
}

// tmpOf returns the directory for temporary files in an environment: TMPDIR or /tmp.
func tmpOf(env []string) string {
	dir := "/tmp"
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "TMPDIR="); ok && filepath.IsAbs(value) {
			dir = value
		}
	}
	return dir
}
