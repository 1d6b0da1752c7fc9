package respond

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
)

// What a look found.
const (
	GroundOK      = "ok"
	GroundBroken  = "broken"
	GroundUnknown = "unknown" // it cannot be told here; counts as ok
)

// Finding is what one look found.
type Finding struct {
	ID       string    `json:"id"`
	Kind     CheckKind `json:"kind"`
	State    string    `json:"state"`
	Category string    `json:"category"` // of the catalog, for what would cure it
	Why      string    `json:"why,omitempty"`
	// Command cures it, where a rule knows one: a proposal, to be judged by the gate
	// as any other.
	Command string `json:"command,omitempty"`
	// Until is when it is over by itself, zero where nobody knows.
	Until  time.Time `json:"until,omitzero"`
	TookUS int64     `json:"took_us"`
}

// Look is what a look needs to know besides the repository.
type Look struct {
	// Path is searched for tools; "" is that of this process.
	Path string
	// Limits are the ends of the limits that are known, by provider; NoLogin says of
	// runners why they have none.
	Limits  map[string]time.Time
	NoLogin map[string]string
	Now     time.Time
	// Memo remembers, between looks, files that were found to be in step; nil
	// remembers nothing.
	Memo *Memo
}

// patience is how long a socket may take to answer.
const patience = 15 * time.Millisecond

// Check makes every active check in dir, in order. It only reads, starts no
// process, and takes a few milliseconds a check; when ctx ends, what was not looked
// at yet is unknown.
func (ps Preventions) Check(ctx context.Context, dir string, l Look) []Finding {
	var out []Finding
	for _, p := range ps.Checks {
		if !p.Active() {
			continue
		}
		f := Finding{ID: p.ID, Kind: p.Kind, State: GroundUnknown, Category: p.Kind.category()}
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

// Problems are the findings that speak against a run.
func Problems(found []Finding) []Finding {
	var out []Finding
	for _, f := range found {
		if f.State == GroundBroken {
			out = append(out, f)
		}
	}
	return out
}

// category is the one that a broken check belongs to.
func (k CheckKind) category() string {
	switch k {
	case CheckPath:
		return "file_not_found"
	case CheckPermission:
		return "permission_denied"
	case CheckDeps:
		return "dependency"
	case CheckDisk:
		return "disk_full"
	case CheckPort:
		return "port_in_use"
	case CheckTool:
		return "command_not_found"
	case CheckAuth:
		return "auth"
	case CheckLimit:
		return "rate_limited"
	}
	return "environment"
}

func (l Look) at(ctx context.Context, dir string, p Prevention, f *Finding) {
	broken := func(format string, args ...any) { f.State, f.Why = GroundBroken, fmt.Sprintf(format, args...) }
	path := within(dir, p.Spec.Path)
	switch p.Kind {
	case CheckPath:
		info, err := os.Stat(path)
		switch {
		case os.IsNotExist(err):
			broken("%s is not there", p.Spec.Path)
		case err != nil:
			f.Why = err.Error()
		case p.Spec.Want == "dir" && !info.IsDir():
			broken("%s is no directory", p.Spec.Path)
		case p.Spec.Want == "file" && !info.Mode().IsRegular():
			broken("%s is no regular file", p.Spec.Path)
		default:
			f.State = GroundOK
		}
	case CheckPermission:
		mode := map[string]uint32{"read": unix.R_OK, "write": unix.W_OK, "execute": unix.X_OK}[p.Spec.Want]
		switch err := unix.Access(path, mode); err {
		case nil:
			f.State = GroundOK
		case unix.EACCES, unix.EPERM, unix.EROFS, unix.ENOENT:
			broken("%s cannot be used (%s): %v", p.Spec.Path, p.Spec.Want, err)
		default:
			f.Why = err.Error()
		}
	case CheckDeps:
		s := inStep(path, p.Spec.Manager, l.Memo)
		f.State, f.Why, f.Command = s.State, s.Why, s.Command
	case CheckDisk:
		free, inodes, err := freeSpace(path)
		switch {
		case err != nil:
			f.Why = err.Error()
		case free < uint64(p.Spec.FreeMB)<<20:
			broken("%d MB are free where %s is, %d are needed", free>>20, path, p.Spec.FreeMB)
		case inodes == 0:
			broken("no inode is free where %s is", path)
		default:
			f.State = GroundOK
		}
	case CheckPort:
		l.port(ctx, p, f)
	case CheckTool:
		got := classify.System{Path: l.Path}.Probe(ctx, classify.ProbeWhich, map[string]string{"tool": p.Spec.Name}, &classify.Input{Dir: dir})
		switch got.Holds {
		case classify.Yes:
			f.State = GroundOK
		case classify.No:
			broken("%s is not on PATH", p.Spec.Name)
		default:
			f.Why = got.Detail
		}
	case CheckService:
		if answers(ctx, p.Spec.Address) {
			f.State = GroundOK
		} else {
			broken("nothing answers at %s", p.Spec.Address)
		}
	case CheckAuth:
		if why, missing := l.NoLogin[p.Spec.Name]; missing {
			broken("%s has no login: %s", p.Spec.Name, why)
		} else {
			f.State = GroundOK
		}
	case CheckLimit:
		f.State = GroundOK
		if until := l.Limits[p.Spec.Name]; until.After(l.Now) {
			broken("the limit of %s is not over before %s", p.Spec.Name, until.UTC().Format(time.RFC3339))
			f.Until = until
		}
	}
}

// port looks without connecting where the system lets it.
func (l Look) port(ctx context.Context, p Prevention, f *Finding) {
	port := strconv.Itoa(p.Spec.Port)
	got := classify.System{}.Probe(ctx, classify.ProbeService, map[string]string{"port": port}, &classify.Input{})
	open := got.Holds == classify.Yes
	if got.Holds == classify.Unknown {
		open = answers(ctx, net.JoinHostPort("localhost", port))
	}
	if f.State = GroundOK; open != (p.Spec.Want == "open") {
		f.State, f.Why = GroundBroken, "something listens on port "+port
		if !open {
			f.Why = "nothing listens on port " + port
		}
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
	_ = c.Close() // it was only asked whether it answers
	return true
}

// within is a path in a directory; an absolute one stays.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// freeSpace is what an ordinary user may still write where path is, in bytes and
// inodes. A file system that does not count inodes has one free.
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
