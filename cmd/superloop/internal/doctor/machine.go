package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/space"
)

// ownBinary is the fix that is shown when superloop could not start a process through its helper process.
const ownBinary = "superloop starts its own binary again to run agents; see whether it may be executed and how many processes you may have (ulimit -u)"

// apartFix is the fix that is shown where processes cannot have a PID namespace of their own.
const apartFix = "let superloop make user and PID namespaces and mount /proc in them (see the reason; in a container: its seccomp profile, and a /proc that nothing is mounted over)"

// containment finds the containment level of this machine, by starting the helper process as a run does.
func containment(context.Context) Result {
	level, why, err := proc.Probe(proc.Options{})
	if err != nil {
		return fail(ownBinary, "%v", err)
	}
	return judgeContainment(level, why)
}

func judgeContainment(level proc.Level, why []string) Result {
	means := map[proc.Level]string{
		proc.PIDNamespace: "no process of an agent outlives its role, and the kernel ends all of them when superloop dies",
		proc.Cgroup:       "no process of an agent outlives its role, but an agent can end or stop superloop; if superloop and its spawner are killed at once, the next start ends what is left",
		proc.Subreaper:    "the processes of an agent are found and ended one by one, and an agent can end or stop superloop; if superloop and its spawner are killed at once, the next run ends what carries its mark",
	}[level]
	if means == "" {
		return warn("run superloop on Linux where this matters", "%s: only the agent's process group is ended; a process that made a session of its own stays%s", level, notes(why))
	}
	if level != proc.PIDNamespace {
		return warn(apartFix, "%s: %s%s", level, means, notes(why))
	}
	return ok("%s: %s%s", level, means, notes(why))
}

const inotifyLimits = "/proc/sys/fs/inotify" // Linux only

// inotify checks whether the limits of the system leave room for watching files. Each process that follows a journal
// takes one inotify instance. When a limit is reached, the kernel's error message speaks of open files or of the disk.
func inotify(dir string) Result {
	var found []string
	low := ""
	for _, l := range []struct {
		name string
		min  int
	}{{"max_user_instances", 64}, {"max_user_watches", 1024}} {
		n := 0
		data, err := os.ReadFile(filepath.Join(dir, l.name))
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		if err != nil {
			return warn("sysctl fs.inotify", "reading %s: %v", l.name, err)
		}
		found = append(found, fmt.Sprintf("%s %d", l.name, n))
		if n < l.min && low == "" {
			low = fmt.Sprintf("sudo sysctl fs.inotify.%s=%d", l.name, 8*l.min)
		}
	}
	if low != "" {
		return warn(low, "%s: editors and other watchers may leave none for superloop (\"too many open files\", \"no space left on device\")", strings.Join(found, ", "))
	}
	return ok("%s", strings.Join(found, ", "))
}

func (p Target) disk(context.Context) Result {
	places := []string{p.Repo}
	if len(p.Loops) > 0 {
		places = append(places, standing(p.Loops[0].Private))
	}
	worst := Result{Status: OK}
	var lines []string
	for _, place := range places {
		var st unix.Statfs_t
		if err := unix.Statfs(place, &st); err != nil {
			return warn("df -h "+text.Paste(place), "asking for the free space of %s: %v", place, err)
		}
		status, line := judgeRoom(place, uint64(st.Bavail)*uint64(st.Bsize), uint64(st.Files), uint64(st.Ffree))
		lines = append(lines, line)
		if status == Fail && worst.Status != Fail || status == Warn && worst.Status == OK {
			worst = Result{Status: status, Fix: "make room: df -h " + text.Paste(place) + "; df -i " + text.Paste(place)}
		}
	}
	worst.Detail = strings.Join(lines, "; ")
	return worst
}

// mostKept bounds the files that space looks at in this repository, and othersKept those in each of at most mostOthers
// others.
const (
	mostKept   = 50_000
	othersKept = 5_000
	mostOthers = 20
)

// space says what superloop takes for this repository and the others, and what of it may go.
func (p Target) space(ctx context.Context) Result {
	if len(p.Kept) == 0 {
		return ok("not known without a place for the private state")
	}
	use, err := space.Look(ctx, p.Kept[0], mostKept)
	if err != nil {
		return warn("ls -la "+text.Paste(p.Kept[0].Super), "%v", err)
	}
	size := func(n int64, least bool) string {
		if least {
			return "at least " + render.Bytes(n)
		}
		return render.Bytes(n)
	}
	r := ok("superloop takes %s here: journals %s, logs %s, archives %s, reports %s, kept for undo %s, private state %s", size(use.Total(), use.Partial),
		render.Bytes(use.Journals), render.Bytes(use.Logs), render.Bytes(use.Archives), render.Bytes(use.Reports), render.Bytes(use.Undo), render.Bytes(use.Private))
	if others := p.Kept[1:]; len(others) > 0 {
		all, least := use.Total(), use.Partial || len(others) > mostOthers
		for _, o := range others[:min(len(others), mostOthers)] {
			u, err := space.Look(ctx, o, othersKept) // an error is that of ctx
			all, least = all+u.Total(), least || u.Partial || err != nil
		}
		r.Detail += fmt.Sprintf("; in all repositories (%d) %s", len(p.Kept), size(all, least))
	}
	var old int64
	for _, u := range use.Due(space.Usual(), p.Now()) {
		old += u.Bytes
	}
	if old > 0 {
		r.Fix = fmt.Sprintf("superloop clean   (removes %s of old logs and archives; the daemon does so once a day)", render.Bytes(old))
	}
	return r
}

// judgeRoom judges the free bytes and inodes of a file system. A file system without a table of inodes reports 0
// inodes.
func judgeRoom(place string, free, inodes, freeInodes uint64) (Status, string) {
	status, line := OK, fmt.Sprintf("%.1f GiB free at %s", float64(free)/(1<<30), place)
	if free < 1<<30 {
		status, line = Warn, fmt.Sprintf("only %d MiB free at %s", free>>20, place)
	}
	if inodes > 0 && freeInodes < 1000 {
		status, line = Warn, fmt.Sprintf("%s, and only %d more files", line, freeInodes)
	}
	if free < 50<<20 || inodes > 0 && freeInodes == 0 {
		status = Fail
	}
	return status, line
}

// clock looks for files with a modification time in the future. Such a file shows that the clock is or was wrong. Then
// everything that superloop derives from times may be wrong too, such as the files that an agent changed. clock looks
// at 20,000 files at most.
func (p Target) clock(ctx context.Context) Result {
	limit := p.Now().Add(time.Minute)
	seen, ahead := 0, 0
	var first string
	var most time.Duration
	err := filepath.WalkDir(p.Repo, func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil // an unreadable file or directory is skipped
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir():
			return nil
		case seen == 20000:
			return fs.SkipAll
		}
		seen++
		info, err := e.Info()
		if err != nil || !info.ModTime().After(limit) {
			return nil
		}
		ahead++
		if d := info.ModTime().Sub(p.Now()); d > most {
			most, first = d, path
		}
		return nil
	})
	switch {
	case err != nil:
		return warn("date", "%v", err)
	case ahead > 0:
		return warn("compare the clock with: date -u; if it is right, touch "+text.Paste(first),
			"%s from the future, %s by %s", render.Number(ahead, "file"), first, most.Round(time.Second))
	}
	return ok("none of %s is from the future", render.Number(seen, "file"))
}
