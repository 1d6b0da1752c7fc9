package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupPrefix is the prefix of the names of superloop's cgroups: superloop-<PID namespace>-<spawner process>-<n>. From
// the name the next Start learns whether the owner is alive.
const cgroupPrefix = "superloop-"

// emptyLimit is the time from cgroup.kill, or from the last reaped process, until the cgroup can be removed. emptyPause
// is the pause between two attempts.
const emptyLimit, emptyPause = time.Second, time.Millisecond

// cgroup implements Cgroup with a new cgroup for each tree. A killed cgroup is never used again, because the kernel
// kills every process that is later cloned into it.
type cgroup struct {
	subreaper
	parent string
	owner  string
	dir    string // the cgroup of the current tree
	fd     int
	killed bool
}

// newCgroup makes a cgroup for a trial and clones a process into it. It also kills the cgroups of dead spawner
// processes.
func newCgroup() (containment, error) {
	parent, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	ns, err := pidNamespace()
	if err != nil {
		return nil, fmt.Errorf("naming a cgroup: %w", err)
	}
	c := &cgroup{parent: parent, owner: fmt.Sprintf("%s%d-%d-", cgroupPrefix, ns, os.Getpid())}
	var attr syscall.SysProcAttr
	if err := c.open(0, &attr); err != nil {
		return nil, err
	}
	defer func() { _ = c.close() }()
	if err := unix.Access(filepath.Join(c.dir, "cgroup.kill"), unix.W_OK); err != nil {
		return nil, fmt.Errorf("cgroup.kill in %s: %w (needs Linux 5.14)", c.dir, err)
	}
	// The clone into the cgroup precedes the exec, so ENOENT proves that the clone was allowed.
	_, err = syscall.ForkExec(filepath.Join(c.dir, "no-such-program"), []string{"trial"}, &syscall.ProcAttr{Sys: &attr})
	if !errors.Is(err, syscall.ENOENT) {
		return nil, fmt.Errorf("starting a process in %s: %w", c.dir, err)
	}
	c.endAbandoned(ns)
	return c, nil
}

// ownCgroup returns the directory of the cgroup v2 of this process.
func ownCgroup() (string, error) {
	list, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("finding our cgroup: %w", err)
	}
	_, path, ok := strings.Cut("\n"+string(list), "\n0::")
	if !ok {
		return "", errors.New("this system has no cgroup v2")
	}
	path, _, _ = strings.Cut(path, "\n")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("finding the cgroup v2 mount: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if dir, ok := cgroupDir(line, path); ok {
			return dir, nil
		}
	}
	return "", errors.New("no cgroup v2 is mounted that holds this process")
}

// cgroupDir returns the directory of the cgroup path if the line of mountinfo is a cgroup v2 mount that contains this
// cgroup.
func cgroupDir(mountinfo, path string) (string, bool) {
	left, right, ok := strings.Cut(mountinfo, " - ")
	fields := strings.Fields(left)
	if !ok || len(fields) < 6 || !strings.HasPrefix(right, "cgroup2 ") {
		return "", false
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	root, mount := unescape.Replace(fields[3]), unescape.Replace(fields[4])
	if strings.HasPrefix(root, "/..") { // the mount shows cgroups above the cgroup namespace, which have no names in it
		return "", false
	}
	rel, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.Join(mount, rel), true
}

func (c *cgroup) name() string { return filepath.Join(c.parent, c.owner) }

func (c *cgroup) open(n int, attr *syscall.SysProcAttr) error {
	dir := filepath.Join(c.parent, c.owner+strconv.Itoa(n))
	err := removeCgroup(dir) // left by an earlier process with the same number
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("making a cgroup: %w", err)
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = os.Remove(dir)
		return fmt.Errorf("opening the cgroup %s: %w", dir, err)
	}
	c.dir, c.fd, c.killed = dir, fd, false
	attr.UseCgroupFD, attr.CgroupFD = true, fd
	return nil
}

// kill kills the processes in the cgroup. If the caller has to repeat it, kill also searches outside of the cgroup,
// because a command of root may have left it.
func (c *cgroup) kill(main int) {
	if err := killCgroup(c.dir); c.killed || err != nil {
		c.subreaper.kill(main)
	}
	c.killed = true
}

func (c *cgroup) close() error {
	unix.Close(c.fd)
	dir := c.dir
	c.dir, c.fd = "", -1
	return removeCgroup(dir)
}

func killCgroup(dir string) error { return SetKernel(filepath.Join(dir, "cgroup.kill"), "1") }

// removeCgroup removes a cgroup and those below it. It kills processes that still live there (from outside of the
// tree), and waits at most emptyLimit.
func removeCgroup(dir string) error {
	for until := time.Now().Add(emptyLimit); ; <-time.After(emptyPause) {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("removing the cgroup %s: %w", dir, err)
		}
		_ = killCgroup(dir)
		var all []string
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, below := range slices.Backward(all) { // a walk names a directory before its content
			_ = unix.Rmdir(below)
		}
	}
}

// endAbandoned kills the cgroups of dead spawner processes. They remain if supervisor and spawner process were killed
// at the same moment. It considers only names of its own PID namespace.
func (c *cgroup) endAbandoned(ns uint64) {
	list, _ := os.ReadDir(c.parent)
	prefix := fmt.Sprintf("%s%d-", cgroupPrefix, ns)
	for _, e := range list {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		owner, _, ok2 := strings.Cut(rest, "-")
		if pid, err := strconv.Atoi(owner); ok && ok2 && err == nil && pid > 1 && unix.Kill(pid, 0) == unix.ESRCH {
			_ = removeCgroup(filepath.Join(c.parent, e.Name()))
		}
	}
}
