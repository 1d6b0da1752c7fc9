package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
// exe is the superloop binary, "" the running one. What holds for p when Protect is called must still hold when
// something is run; else it is not started, and Result.Err says why. Files may have come, gone or been replaced at the
// places: what is there when something is run is what is protected. Nothing falls back silently. Run's commands belong
// through s, not through what Protect returns: they could not set up their own confinement in there.
func Protect(ctx context.Context, s Spawner, p Protection, exe string) (Spawner, ProtectionReport) {
	rep := ProtectionReport{Level: ProtectNone}
	none := func(err error) (Spawner, ProtectionReport) {
		rep.Notes = append(rep.Notes, clip("agents are not kept from the configuration: "+err.Error()))
		return s, rep
	}
	if ctx.Err() != nil {
		return none(context.Cause(ctx))
	}
	p, err := p.resolved()
	if err != nil {
		return none(err)
	}
	if err = p.check(); err == nil {
		exe, err = shimExe(exe)
	}
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

// Undumpable is proc.Undumpable.
func Undumpable() error { return proc.Undumpable() }
