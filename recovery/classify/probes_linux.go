package classify

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// staleAfter is the age from which a lock file that no process has open counts as left over from a dead process.
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

// lockHolder finds the process that holds a lock file: one that has locked the file or has it open. Without a path it
// looks at the index.lock of the repository in dir.
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
	// A file that exists while it is held belongs to the user of the process that made it.
	mayHold := func(int) bool { return true }
	if strings.HasSuffix(path, ".lock") {
		mayHold = func(pid int) bool {
			return runsAs(pid, st.Uid) && !takesNone(pid) && !startedAfter(pid, info.ModTime())
		}
	}
	pid, all := holder(func(fd string) bool {
		var s syscall.Stat_t
		return syscall.Stat(fd, &s) == nil && s.Dev == st.Dev && s.Ino == st.Ino
	}, mayHold)
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

// kernelLock returns the pid of the process that has a flock or fcntl lock on a file, or 0.
func kernelLock(st *syscall.Stat_t) int {
	locks, _ := os.ReadFile("/proc/locks") // after an error the loop finds no holder
	want := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(string(locks)) {
		w := strings.Fields(line)
		if len(w) > 5 && w[5] == want && w[1] != "->" {
			if pid, err := strconv.Atoi(w[4]); err == nil && pid > 0 {
				return pid
			}
		}
	}
	return 0
}

// holder returns the pid of a process that has an open file for which the function is returns true, or 0. The argument
// of is is a link below /proc. all is false if holder found no process and was not permitted to look at every process
// for which mayHold returns true.
func holder(is func(fd string) bool, mayHold func(pid int) bool) (pid int, all bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0, true
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all = true
	for n, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || n > maxProcs {
			continue
		}
		base := "/proc/" + name + "/fd"
		d, err := os.Open(base)
		if err != nil {
			all = all && !(os.IsPermission(err) && mayHold(pid))
			continue
		}
		list, _ := d.Readdirnames(1024)
		d.Close()
		if slices.ContainsFunc(list, func(fd string) bool { return is(base + "/" + fd) }) {
			return pid, true
		}
	}
	return 0, all
}

// runsAs reports whether a process may have made a file of the user uid: it runs as that user, in its own or another
// user namespace. The helpers of this process, which nobody may look into, make no such file.
func runsAs(pid int, uid uint32) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return !os.IsNotExist(err)
	}
	for line := range strings.Lines(string(status)) {
		key, values, _ := strings.Cut(line, ":")
		switch words := strings.Fields(values); {
		case key == "PPid" && slices.Equal(words, []string{strconv.Itoa(os.Getpid())}):
			return false
		case key == "Uid":
			return slices.Contains(words, strconv.FormatUint(uint64(uid), 10))
		}
	}
	return true
}

// takesNone reports whether a process is one of the programs that let nobody look into them and take no lock files: the
// keepers of an ordinary user's keys, the session's PAM process, and another superloop, which leaves the locks to git.
func takesNone(pid int) bool {
	return slices.Contains([]string{"ssh-agent", "gpg-agent", "gnome-keyring-d", "(sd-pam)", "superloop"}, commandOf(pid))
}

// startedAfter reports whether a process started more than a minute after a time of the file system's clock. The minute
// is for clocks that were set. The kernel counts starts in ticks of 10 ms since boot.
func startedAfter(pid int, at time.Time) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // empty if the process has ended
	w := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var now unix.Timespec
	if len(w) < 20 || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return false
	}
	ticks, err := strconv.ParseInt(w[19], 10, 64)
	age := time.Duration(now.Nano()) - time.Duration(ticks)*10*time.Millisecond
	return err == nil && time.Since(at)-age > time.Minute
}

func commandOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // missing if the process has ended
	return cmp.Or(strings.TrimSpace(string(b)), "?")
}

// listening returns the inode of the socket that listens on a port, or "" if there is none. ok is false if the kernel
// does not answer.
func listening(port int) (inode string, ok bool) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if inode, ok = askListener(family, port); !ok {
			return readListener(port)
		}
		if inode != "" {
			break
		}
	}
	return inode, ok
}

// askListener asks the kernel by netlink (sock_diag(7)) which socket listens on a port. This takes 0.1 ms. To read
// /proc/net/tcp takes 10 ms, because the kernel walks over all connections for it.
func askListener(family byte, port int) (inode string, ok bool) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	request := make([]byte, 72) // struct nlmsghdr, and from byte 16 struct inet_diag_req_v2
	binary.NativeEndian.PutUint32(request, 72)
	binary.NativeEndian.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[16], request[17] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(request[20:], 1<<unix.BPF_TCP_LISTEN)
	binary.BigEndian.PutUint16(request[24:], uint16(port))
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return "", false
	}
	reply := make([]byte, 32<<10)
	n, err := unix.Read(fd, reply)
	if err != nil {
		return "", false
	}
	messages, err := syscall.ParseNetlinkMessage(reply[:n])
	if err != nil || len(messages) == 0 {
		return "", false
	}
	switch m := messages[0]; { // struct inet_diag_msg: its last field is the inode
	case m.Header.Type == unix.NLMSG_DONE:
		return "", true
	case m.Header.Type == unix.SOCK_DIAG_BY_FAMILY && len(m.Data) >= 72:
		return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(m.Data[68:])), 10), true
	}
	return "", false
}

// readListener does the same as listening on kernels without sock_diag: it reads /proc/net/tcp and tcp6.
func readListener(port int) (inode string, ok bool) {
	want := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		ok = ok || err == nil
		for line := range strings.Lines(string(text)) {
			w := strings.Fields(line)
			if len(w) > 9 && strings.HasSuffix(w[1], want) && w[3] == "0A" {
				return w[9], true
			}
		}
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

func portOwner(port string) Finding {
	n, ok := portNumber(port)
	if !ok {
		return Finding{}
	}
	inode, ok := listening(n)
	if !ok || inode == "" {
		return Finding{Value: "free", Detail: "nothing listens on port " + port + " now"}
	}
	owner, _ := holder(func(fd string) bool {
		l, err := os.Readlink(fd)
		return err == nil && l == "socket:["+inode+"]"
	}, func(int) bool { return true })
	if owner == 0 {
		return Finding{Detail: "a process that we may not look at has port " + port}
	}
	f := Finding{Holds: No, Value: strconv.Itoa(owner), Detail: fmt.Sprintf("process %d (%s) has port %s", owner, commandOf(owner), port)}
	if ours(owner) {
		f.Holds = Yes
		f.Detail += " and was started by this loop"
	}
	return f
}

// ours reports whether a process has SUPERLOOP_LOOP in its environment or descends from this process.
func ours(pid int) bool {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // empty for a process of another account
	for e := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.HasPrefix(e, []byte("SUPERLOOP_LOOP=")) {
			return true
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
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			events, _ := os.ReadFile(filepath.Join(root, path, "memory.events")) // without the file the answer is Unknown
			for l := range strings.Lines(string(events)) {
				switch w := strings.Fields(l); {
				case len(w) != 2 || w[0] != "oom_kill":
				case w[1] == "0":
					return Finding{Holds: No, Value: "0"}
				default:
					return Finding{Holds: Yes, Value: w[1], Detail: "the kernel killed " + w[1] + " processes for memory here"}
				}
			}
		}
	}
	return Finding{}
}
