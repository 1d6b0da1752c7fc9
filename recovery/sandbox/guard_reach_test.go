//go:build linux

package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// Sandboxes that agents bring make namespaces in which they have every power,
// mount /proc anew and bind what they like.
func TestSandboxesStartInside(t *testing.T) {
	t.Parallel()
	const sandbox = `unshare -Urmpf bash -ec '
mount -t proc proc /proc; mkdir -p sub/new; mount --rbind / sub/new; mount -t tmpfs none sub/new/tmp; cd sub/new; mkdir tmp/old; pivot_root . tmp/old; cd /
umount -l /tmp/old; echo x > /dev/null; echo inside'`
	eachShielded(t, func(t *testing.T, s *shielded) {
		if o := s.runAgent(t, s.agent(sandbox)); o.Result.Stdout.Text() != "inside\n" {
			control := s.agent(sandbox)
			control.Plain = true
			if c := s.runAgent(t, control); c.Result.Stdout.Text() != "inside\n" {
				t.Skipf("it does not start without protection either: %v", c)
			}
			t.Error(o)
		}
		if path, err := proc.LookPath("bwrap", []string{"PATH=" + os.Getenv("PATH")}); err == nil {
			a := s.agent(path + ` --unshare-user --unshare-pid --unshare-net --die-with-parent --ro-bind / / --dev /dev --proc /proc --bind "$PWD" "$PWD" echo inside`)
			if o := s.runAgent(t, a); o.Result.Stdout.Text() != "inside\n" {
				t.Error(o)
			}
		}
	})
}

// Sandboxes that mask a file on every mount where it seems to be fail where it
// seems to be and is not. Codex does so below the directory for temporary files.
func TestMountsDoNotMislead(t *testing.T) {
	t.Parallel()
	eachShielded(t, func(t *testing.T, s *shielded) {
		s.withTool(t)
		for _, tmp := range []string{"", s.tmp, s.home} { // all of them near the repository, or above it
			a := s.agent(`cat /proc/self/mountinfo; mkdir -p "${TMPDIR:-/tmp}"; "$TOOL" trickster aliases "$(realpath "${TMPDIR:-/tmp}")" x`)
			if tmp != "" {
				a.Env = append(a.Env, "TMPDIR="+tmp)
			}
			if o := s.runAgent(t, a); o.Result.Code != 0 || !strings.Contains(o.Result.Stdout.Text(), "gave <nil>") {
				t.Errorf("%q: %v", tmp, o)
			}
		}
	})
}

// The way through the supervisor, and through the process that starts agents.
func TestAgentsCannotReachTheSupervisor(t *testing.T) {
	t.Parallel()
	ways := []string{
		`echo x > "/proc/$P/root$PWD/.superloop/new"`, `echo x > "/proc/$P/cwd/$PWD/.superloop/new"`,
		`nsenter -t $P -m sh -c 'echo x > "$0/.superloop/new"' "$PWD"`, `nsenter -t $P -U -m --preserve-credentials sh -c 'echo x > "$0/.superloop/new"' "$PWD"`,
		`"$TOOL" trickster trace $P x && echo x > "$LOOP"/found`, `(exec 9<>/proc/$P/mem) && echo x > "$LOOP"/found`, `cat /proc/$P/environ > "$LOOP"/found && [ -s "$LOOP"/found ]`,
		`readlink /proc/$P/fd/0`, `readlink /proc/$P/ns/mnt`,
	}
	eachShielded(t, func(t *testing.T, s *shielded) {
		// At this level the agents see the processes of everybody.
		s = shieldedWorld(t, s.uid, proc.Subreaper)
		s.withTool(t)
		for _, way := range ways {
			for _, whom := range []string{"$SUPERVISOR", "$PPID"} {
				a := s.agent("P=" + whom + "; [ -d /proc/$P ] || echo unseen; if { " + way + "; } 2>&1; then echo got; fi; rm -f $LOOP/found")
				o := s.runAgent(t, a)
				if text := o.Result.Stdout.Text(); strings.HasSuffix(text, "got\n") || strings.Contains(text, "unseen") || exists(s.repo+"/.superloop/new") {
					t.Errorf("%s of %s: %v", way, whom, o)
				}
			}
		}
	})
}

// The ways to hold up a process that are no signals: the terminal that it writes to, and its cgroup.
func TestAgentsCannotHoldUpTheSupervisor(t *testing.T) {
	t.Parallel()
	eachShielded(t, func(t *testing.T, s *shielded) {
		terminal, number := newTerminal(t, s.uid)
		group := newGroup(t, s.uid)
		s.withTool(t)
		a := s.agent("{ \"$TOOL\" trickster suspend " + terminal + " " + number + " && echo suspended; echo 1 > " + group + "/cgroup.freeze && echo frozen; } 2>/dev/null; " +
			`script -qc 'tty' /dev/null | grep -c /dev/pts/; echo end`)
		if o := s.runAgent(t, a); !strings.HasSuffix(o.Result.Stdout.Text(), "\n1\nend\n") || strings.Contains(o.Result.Stdout.Text(), "suspended") || strings.Contains(o.Result.Stdout.Text(), "frozen") {
			t.Error(o)
		}
		a.Plain = true
		if o := s.runAgent(t, a); !strings.Contains(o.Result.Stdout.Text(), "suspended") || group != "/none" && !strings.Contains(o.Result.Stdout.Text(), "frozen") {
			t.Errorf("this shows nothing: %v", o)
		}
	})
}

// newTerminal makes a terminal of a user, and returns its path and its inode.
func newTerminal(t *testing.T, uid int) (path, inode string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	path = fmt.Sprintf("/dev/pts/%d", n)
	if err == nil {
		err = os.Chown(path, uid, -1)
	}
	var st unix.Stat_t
	if err = cmp.Or(err, unix.Stat(path, &st)); err != nil {
		t.Fatal(err)
	}
	return path, fmt.Sprint(st.Dev)
}

// newGroup makes a cgroup of a user, as systemd does, where the test may.
func newGroup(t *testing.T, uid int) string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if !strings.Contains(line, " - cgroup2 ") {
			continue
		}
		dir := filepath.Join(strings.Fields(line)[4], fmt.Sprintf("superloop-test-%d-%d", os.Getpid(), uid))
		if os.Mkdir(dir, 0o755) == nil && os.Chown(dir+"/cgroup.freeze", uid, -1) == nil {
			t.Cleanup(func() { _ = os.Remove(dir) })
			return dir
		}
	}
	return "/none"
}

func TestUndumpable(t *testing.T) {
	t.Parallel()
	eachShielded(t, func(t *testing.T, s *shielded) {
		if s.uid == 0 {
			t.Skip("root may look into every process: only a protection keeps it from that")
		}
		s = shieldedWorld(t, s.uid, proc.Subreaper) // in a PID namespace nothing of it is to be seen in any case
		for _, hidden := range []bool{false, true} {
			a := s.agent("cat /proc/$SUPERVISOR/environ | wc -c; ls /proc/$SUPERVISOR/cwd/ > /dev/null && echo seen; true")
			a.Plain, a.Undumpable = true, hidden
			o := s.apart().runAgent(t, a) // in a process of its own: it lasts
			if got := o.Result.Stdout.Text(); (got == "0\n") != hidden {
				t.Errorf("undumpable %v: %v", hidden, o)
			}
			a.Plain = false // that goes together
			if o := s.apart().runAgent(t, a); o.Result.Stdout.Text() != "0\n" {
				t.Error(o)
			}
		}
	})
}

// Root gets around mounts by the modes of files, where nothing else is done.
func TestRootHasNoDisks(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has them")
	}
	s := shieldedWorld(t, 0, "")
	const script = `for b in /sys/block/*; do d=/dev/${b##*/}; (exec 9<"$d") 2>/dev/null && echo opened "$d"; done
mknod "$PWD/disk" b 254 0 2>/dev/null && (exec 9<"$PWD/disk") 2>/dev/null && echo made; rm -f "$PWD/disk"
unshare -Urm sh -c 'mknod disk b 254 0 2>/dev/null && (exec 9<disk) 2>/dev/null && echo made'; rm -f disk
[ -w /sys/kernel ] && echo settings; echo end`
	a := s.agent(script)
	if o := s.runAgent(t, a); o.Result.Stdout.Text() != "end\n" {
		t.Error(o)
	}
	a.Plain = true
	if o := s.runAgent(t, a); o.Result.Stdout.Text() == "end\n" {
		t.Skipf("there are none here in any case: %v", o)
	}
}

// A working directory in something that is protected is protected too.
func TestWorkingDirectoryUnderProtection(t *testing.T) {
	t.Parallel()
	eachShielded(t, func(t *testing.T, s *shielded) {
		before := s.look(t)
		a := s.agent("pwd; echo x > new; echo x > config.json; echo x > ../.superloop/new; cd loops/demo && echo x > mine && cat mine")
		a.Dir = s.repo + "/.superloop"
		if o := s.runAgent(t, a); o.Result.Stdout.Text() != a.Dir+"\nx\n" {
			t.Error(o)
		}
		if after := s.look(t); before != after {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		a.Dir = s.private
		if o := s.runAgent(t, a); o.Result.Stdout.Text() != a.Dir+"\n" {
			t.Error(o)
		}
	})
}
