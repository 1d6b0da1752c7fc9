// Package preflight makes the environment checks before a role gets work, and stores the values that package failures
// decides with.
//
// Check makes the checks of failures.Preventions: paths, permissions, free space, ports, tools, logins, limits, and
// whether the installed packages match a lock file. Collect takes a snapshot of the environment; failures.Compare lists
// the changes since an earlier snapshot. Check and Collect only read, start no process, and are bounded in time and
// memory.
//
// Store keeps a value of package failures in a private file. Package failures makes the decisions and does no I/O, so a
// machine that only decides does not need package preflight.
package preflight

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
)

// Look holds the facts that Check needs besides the repository.
type Look struct {
	Path string // the list of directories to search for tools; "" is the PATH of this process
	// Limits maps a provider to the end of its limit, if a limit is known. NoLogin maps a runner without a login to the
	// reason.
	Limits  map[string]time.Time
	NoLogin map[string]string
	Now     time.Time
}

// patience is the time that a socket may take to answer.
const patience = 15 * time.Millisecond

// Check makes each active check of checks in dir, in order. Check only reads, starts no process, and takes a few
// milliseconds per check. When ctx ends, the state of the remaining checks is unknown.
func Check(ctx context.Context, checks []failures.Prevention, dir string, l Look) []failures.Finding {
	var out []failures.Finding
	for _, p := range checks {
		if !p.Active() {
			continue
		}
		f := failures.Finding{ID: p.ID, Kind: p.Kind, State: failures.CheckUnknown, Category: p.Kind.Category()}
		began := time.Now()
		if ctx.Err() != nil {
			f.Why = "there was no time to look"
		} else {
			l.at(ctx, dir, p, &f)
		}
		f.TookUS = time.Since(began).Microseconds()
		out = append(out, f)
	}
	return out
}

func (l Look) at(ctx context.Context, dir string, p failures.Prevention, f *failures.Finding) {
	f.State = failures.CheckOK
	broken := func(format string, args ...any) { f.State, f.Why = failures.CheckBroken, fmt.Sprintf(format, args...) }
	unknown := func(why string) { f.State, f.Why = failures.CheckUnknown, why }
	path := within(dir, p.Spec.Path)
	switch p.Kind {
	case failures.CheckPath:
		info, err := os.Stat(path)
		switch {
		case os.IsNotExist(err):
			broken("%s is not there", p.Spec.Path)
		case err != nil:
			unknown(err.Error())
		case p.Spec.Want == "dir" && !info.IsDir():
			broken("%s is no directory", p.Spec.Path)
		case p.Spec.Want == "file" && !info.Mode().IsRegular():
			broken("%s is no regular file", p.Spec.Path)
		}
	case failures.CheckPermission:
		mode := map[string]uint32{"read": unix.R_OK, "write": unix.W_OK, "execute": unix.X_OK}[p.Spec.Want]
		switch err := unix.Access(path, mode); err {
		case nil:
		case unix.EACCES, unix.EPERM, unix.EROFS, unix.ENOENT:
			broken("%s cannot be used (%s): %v", p.Spec.Path, p.Spec.Want, err)
		default:
			unknown(err.Error())
		}
	case failures.CheckDeps:
		s := inStep(path, p.Spec.Manager)
		f.State, f.Why, f.Command = s.State, s.Why, s.Command
	case failures.CheckDisk:
		free, inodes, err := freeSpace(path)
		switch {
		case err != nil:
			unknown(err.Error())
		case free < uint64(p.Spec.FreeMB)<<20:
			broken("%d MB are free where %s is, %d are needed", free>>20, path, p.Spec.FreeMB)
		case inodes == 0:
			broken("no inode is free where %s is", path)
		}
	case failures.CheckPort: // the probe connects only if the system has no other way
		port := strconv.Itoa(p.Spec.Port)
		got := classify.System{}.Probe(ctx, classify.ProbeService, map[string]string{"port": port}, &classify.Input{})
		open := got.Holds == classify.Yes || got.Holds == classify.Unknown && answers(ctx, net.JoinHostPort("localhost", port))
		switch want := p.Spec.Want == "open"; {
		case open && !want:
			broken("something listens on port %s", port)
		case want && !open:
			broken("nothing listens on port %s", port)
		}
	case failures.CheckTool:
		got := classify.System{Path: l.Path}.Probe(ctx, classify.ProbeWhich, map[string]string{"tool": p.Spec.Name}, &classify.Input{Dir: dir})
		if got.Holds == classify.No {
			broken("%s is not on PATH", p.Spec.Name)
		} else if got.Holds != classify.Yes {
			unknown(got.Detail)
		}
	case failures.CheckService:
		if !answers(ctx, p.Spec.Address) {
			broken("nothing answers at %s", p.Spec.Address)
		}
	case failures.CheckAuth:
		if why, missing := l.NoLogin[p.Spec.Name]; missing {
			broken("%s has no login: %s", p.Spec.Name, why)
		}
	case failures.CheckLimit:
		if until := l.Limits[p.Spec.Name]; until.After(l.Now) {
			broken("the limit of %s is not over before %s", p.Spec.Name, until.UTC().Format(time.RFC3339))
			f.Until = until
		}
	default:
		unknown("")
	}
}

func answers(ctx context.Context, addr string) bool {
	network := "tcp"
	if filepath.IsAbs(addr) {
		network = "unix"
	}
	d := net.Dialer{Timeout: patience}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	_ = c.Close() // the connection only shows that the service answers
	return true
}

// within returns a path inside a directory. An absolute path stays as it is.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// freeSpace returns the bytes and inodes that an ordinary user may still use on the file system of path. If path does
// not exist, freeSpace uses the nearest parent that exists. On a file system without a count of inodes it returns one
// inode.
func freeSpace(path string) (bytes, inodes uint64, err error) {
	for {
		var st unix.Statfs_t
		err = unix.Statfs(path, &st)
		if err == nil {
			inodes = st.Ffree
			if st.Files == 0 {
				inodes = 1
			}
			return uint64(st.Bavail) * uint64(st.Bsize), inodes, nil
		}
		up := filepath.Dir(path)
		if err != unix.ENOENT || up == path {
			return 0, 0, fmt.Errorf("asking for free space at %s: %w", path, err)
		}
		path = up
	}
}
