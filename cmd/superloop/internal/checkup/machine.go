package checkup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// Bounds on free space: below the first a night may end early, below the second
// it will.
const (
	littleSpace = 1 << 30
	noSpace     = 50 << 20
)

func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// checkContainment starts the process that would run agents and tells what
// really holds a tree of processes together here.
func checkContainment(context.Context, *Patient) []Result {
	level, notes, err := proc.Probe(proc.Options{})
	if err != nil {
		return one("containment", Fail, err.Error(), "superloop run --containment subreaper --verbose")
	}
	means := map[proc.Level]string{
		proc.PIDNamespace: "whatever a role starts ends with it, even if superloop is killed",
		proc.Cgroup:       "whatever a role starts ends with it; after a kill of superloop and its helper at once the next start ends the rest",
		proc.Subreaper:    "whatever a role starts is found and ended; if superloop and its helper are killed at once, the next start ends the rest",
		proc.ProcessGroup: "a process that makes its own session can outlive its role",
	}[level]
	status := OK
	if level == proc.ProcessGroup {
		status = Warn
	}
	if len(notes) > 0 {
		means += " (" + strings.Join(notes, "; ") + ")"
	}
	return one("containment", status, string(level)+": "+means, "")
}

// checkInotify reads the limits that make watching fail in ways whose messages
// speak of files and disks.
func checkInotify(context.Context, *Patient) []Result {
	read := func(name string) int {
		data, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
		if err != nil {
			return -1
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			return -1
		}
		return n
	}
	instances, watches := read("max_user_instances"), read("max_user_watches")
	if instances < 0 || watches < 0 {
		return nil // not Linux: nothing to say
	}
	detail := fmt.Sprintf("%d instances, %d watches a user", instances, watches)
	if instances < 64 || watches < 8192 {
		return one("inotify", Warn, detail+": few; superloop then looks once a second instead",
			"sysctl fs.inotify.max_user_instances=256 fs.inotify.max_user_watches=65536")
	}
	return one("inotify", OK, detail, "")
}

func checkDisk(_ context.Context, p *Patient) []Result {
	var st unix.Statfs_t
	if err := unix.Statfs(p.Repo, &st); err != nil {
		return one("disk", Warn, err.Error(), "df -h "+p.Repo)
	}
	free := st.Bavail * uint64(st.Bsize)
	detail := fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30))
	switch {
	case free < noSpace:
		return one("disk", Fail, detail, "df -h "+p.Repo)
	case free < littleSpace:
		return one("disk", Warn, detail, "df -h "+p.Repo)
	}
	return one("disk", OK, detail, "")
}

// checkClock: a file from the future means that a clock was wrong, here or
// where the file came from, and that stale and fresh cannot be told apart.
func checkClock(_ context.Context, p *Patient) []Result {
	for _, name := range []string{".git/HEAD", ".git/index", ".superloop/config.json", ".superloop/state.json"} {
		info, err := os.Stat(filepath.Join(p.Repo, name))
		if err == nil && time.Until(info.ModTime()) > time.Minute {
			return one("clock", Warn, fmt.Sprintf("%s was written %s in the future", name, time.Until(info.ModTime()).Round(time.Second)), "date")
		}
	}
	return one("clock", OK, time.Now().UTC().Format(time.RFC3339), "")
}

// checkEnforcement is honest about what stands between an agent and superloop's
// own files: nothing but words, in this version.
func checkEnforcement(context.Context, *Patient) []Result {
	return one("enforcement", OK, "L0, advisory: agents run with your rights and can change .superloop/config.json and the private state; "+
		"a journal that was rewritten is found, not prevented", "")
}
