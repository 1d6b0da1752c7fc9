package classify

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// staleAfter is how old a lock file must be, with no process that has it open, to be left over from a process that
// died.
const staleAfter = 10 * time.Second

// maxProcs bounds how many processes one probe looks at.
const maxProcs = 5000

func writable(path string) Finding {
	at := nearestDir(path)
	if at == "" {
		return Finding{}
	}
	switch err := unix.Access(at, unix.W_OK); err {
	case nil:
		return Finding{Holds: Yes, Value: at}
	case unix.EROFS:
		return Finding{Holds: No, Value: "read-only", Detail: at + " is on a read-only file system"}
	case unix.EACCES, unix.EPERM:
		detail := "no permission to write " + at
		if info, err := os.Stat(at); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				detail += fmt.Sprintf(", which belongs to user %d", st.Uid)
			}
		}
		return Finding{Holds: No, Value: "forbidden", Detail: detail}
	default:
		return Finding{Detail: err.Error()}
	}
}

// Below these a file system counts as full.
const (
	lowBytes  = 4 << 20
	lowInodes = 16
)

func freeSpace(path string) Finding {
	at := nearestDir(path)
	if at == "" {
		return Finding{}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return Finding{Detail: err.Error()}
	}
	free := st.Bavail * uint64(st.Bsize)
	f := Finding{Holds: Yes, Value: strconv.FormatUint(free, 10), Detail: fmt.Sprintf("%d MiB and %d inodes are free", free>>20, st.Ffree)}
	if free < lowBytes || st.Files > 0 && st.Ffree < lowInodes {
		f.Holds = No
	}
	return f
}

// lockHolder says who holds a lock file: a process that locked it or has it open.
func lockHolder(path, dir string) Finding {
	if path == "" {
		if dir == "" {
			return Finding{}
		}
		path = filepath.Join(dir, ".git", "index.lock")
	}
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return Finding{Holds: No, Value: "gone", Detail: "the lock is not there any more"}
	}
	if err != nil {
		return Finding{Detail: err.Error()}
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Finding{}
	}
	if pid := kernelLock(st); pid > 0 {
		return held(pid)
	}
	pid, all := openBy(st)
	switch {
	case pid > 0:
		return held(pid)
	case !all:
		return Finding{Detail: "not every process can be looked at"}
	case !strings.HasSuffix(path, ".lock") && info.Mode().IsRegular():
		return Finding{Holds: No, Value: "free", Detail: "no process holds it"}
	case time.Since(info.ModTime()) < staleAfter:
		return Finding{Detail: "no process has it open, but it is new"}
	}
	return Finding{Holds: No, Value: "stale", Detail: fmt.Sprintf("no process has it open and it is %s old", time.Since(info.ModTime()).Round(time.Second))}
}

func held(pid int) Finding {
	return Finding{Holds: Yes, Value: strconv.Itoa(pid), Detail: fmt.Sprintf("process %d (%s) holds it", pid, commandOf(pid))}
}

// kernelLock finds the holder of a flock or fcntl lock.
func kernelLock(st *syscall.Stat_t) int {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	want := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		w := strings.Fields(sc.Text())
		if len(w) > 5 && w[5] == want && w[1] != "->" {
			if pid, err := strconv.Atoi(w[4]); err == nil && pid > 0 {
				return pid
			}
		}
	}
	return 0
}

// openBy finds a process that has a file open; all is false if some could not be looked at.
func openBy(st *syscall.Stat_t) (pid int, all bool) {
	all = true
	each(func(pid int, fds []string) bool {
		if fds == nil {
			all = false
		}
		for _, fd := range fds {
			var s syscall.Stat_t
			if syscall.Stat(fd, &s) == nil && s.Dev == st.Dev && s.Ino == st.Ino {
				all = true
				return false
			}
		}
		return true
	}, func(p int) { pid = p })
	return pid, all
}

// each visits the processes and their open files until visit says that it found what it looks for; fds is nil for a
// process that we may not look at.
func each(visit func(pid int, fds []string) bool, found func(pid int)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for n, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || n > maxProcs {
			continue
		}
		base := "/proc/" + name + "/fd"
		d, err := os.Open(base)
		if err != nil {
			if os.IsPermission(err) {
				visit(pid, nil)
			}
			continue
		}
		list, _ := d.Readdirnames(1024)
		d.Close()
		fds := make([]string, len(list))
		for i, l := range list {
			fds[i] = base + "/" + l
		}
		if !visit(pid, fds) {
			found(pid)
			return
		}
	}
}

func commandOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(b))
}

// listening finds the socket inode that listens on a port, "" if none does; ok is false where the tables cannot be
// read.
func listening(port int) (inode string, ok bool) {
	want := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		ok = true
		sc := bufio.NewScanner(f)
		for sc.Scan() {
			w := strings.Fields(sc.Text())
			if len(w) > 9 && strings.HasSuffix(w[1], want) && w[3] == "0A" {
				f.Close()
				return w[9], true
			}
		}
		f.Close()
	}
	return "", ok
}

func service(port string) Finding {
	n, ok := portNumber(port)
	if !ok {
		return Finding{}
	}
	inode, ok := listening(n)
	switch {
	case !ok:
		return Finding{}
	case inode == "":
		return Finding{Holds: No, Value: port, Detail: "nothing listens on port " + port}
	}
	return Finding{Holds: Yes, Value: port, Detail: "something listens on port " + port}
}

func (s System) portOwner(port string) Finding {
	n, ok := portNumber(port)
	if !ok {
		return Finding{}
	}
	inode, ok := listening(n)
	if !ok || inode == "" {
		return Finding{Value: "free", Detail: "nothing listens on port " + port + " now"}
	}
	owner := 0
	each(func(pid int, fds []string) bool {
		for _, fd := range fds {
			if l, err := os.Readlink(fd); err == nil && l == "socket:["+inode+"]" {
				return false
			}
		}
		return true
	}, func(pid int) { owner = pid })
	if owner == 0 {
		return Finding{Detail: "a process that we may not look at has port " + port}
	}
	f := Finding{Holds: No, Value: strconv.Itoa(owner), Detail: fmt.Sprintf("process %d (%s) has port %s", owner, commandOf(owner), port)}
	if s.ours(owner) {
		f.Holds = Yes
		f.Detail += " and was started by this loop"
	}
	return f
}

// ours reports whether a process carries the loop's mark or descends from us.
func (s System) ours(pid int) bool {
	mark := s.Mark
	if mark == "" {
		mark = "SUPERLOOP_LOOP="
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err == nil {
		for _, e := range bytes.Split(env, []byte{0}) {
			if s.Mark != "" && string(e) == mark || s.Mark == "" && bytes.HasPrefix(e, []byte(mark)) {
				return true
			}
		}
	}
	self := os.Getpid()
	for range 64 {
		if pid == self {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		i := bytes.LastIndexByte(stat, ')')
		w := strings.Fields(string(stat[i+1:]))
		if len(w) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(w[1]); err != nil || pid <= 1 {
			return false
		}
	}
	return false
}

func oomKilled() Finding {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Finding{}
	}
	for line := range strings.Lines(string(b)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			events, err := os.ReadFile(filepath.Join(root, path, "memory.events"))
			if err != nil {
				continue
			}
			for l := range strings.Lines(string(events)) {
				w := strings.Fields(l)
				if len(w) == 2 && w[0] == "oom_kill" {
					if w[1] == "0" {
						return Finding{Holds: No, Value: "0"}
					}
					return Finding{Holds: Yes, Value: w[1], Detail: "the kernel killed " + w[1] + " processes for memory here"}
				}
			}
		}
	}
	return Finding{}
}
