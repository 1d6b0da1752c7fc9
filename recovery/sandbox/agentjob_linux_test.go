package sandbox

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mount makes the bind mounts of a job, for which the supervisor has a mount
// namespace of its own.
func (a *agentJob) mount() error {
	if a != nil && a.NoLandlock {
		if err := withoutLandlock(); err != nil {
			return err
		}
	}
	if a == nil || len(a.Binds) == 0 {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, b := range a.Binds {
		if err := unix.Mount(b[0], b[1], "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if a.User == os.Getuid() {
		return nil
	}
	for _, become := range []func(int) error{syscall.Setgid, syscall.Setuid} {
		if err := become(a.User); err != nil {
			return err
		}
	}
	return nil
}

// withoutLandlock makes this process one on a kernel without Landlock, as some containers do.
func withoutLandlock() error {
	code := []unix.SockFilter{load(offsetNumber), unless(bpfEqual, unix.SYS_LANDLOCK_CREATE_RULESET, 1), refused(unix.ENOSYS), allowed()}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); no != 0 {
		return no
	}
	return nil
}

// tricksterArg makes the test binary a program that tries what no shell can.
const tricksterArg = "trickster"

func trickster(args []string) int {
	err := fmt.Errorf("no such trick: %q", args)
	switch {
	case len(args) == 3 && args[0] == "exchange":
		err = unix.Renameat2(unix.AT_FDCWD, args[1], unix.AT_FDCWD, args[2], unix.RENAME_EXCHANGE)
	case len(args) == 3 && args[0] == "handle":
		err = byHandle(args[1], args[2])
	case len(args) == 3 && args[0] == "trace":
		var pid int
		if pid, err = strconv.Atoi(args[1]); err == nil {
			err = unix.PtraceSeize(pid)
		}
	case len(args) == 3 && args[0] == "suspend":
		err = suspend(args[1], args[2])
	case len(args) == 3 && args[0] == "dial":
		var c net.Conn
		if c, err = net.Dial(args[1], args[2]); err == nil {
			err = c.Close()
		}
	case len(args) == 2 && args[0] == "neighbours":
		err = neighbours(args[1])
	case len(args) == 3 && args[0] == "clear":
		err = unix.MountSetattr(unix.AT_FDCWD, args[1], unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	case len(args) == 3 && args[0] == "move":
		var tree int
		if tree, err = unix.OpenTree(unix.AT_FDCWD, args[1], 0); err == nil {
			err = unix.MoveMount(tree, "", unix.AT_FDCWD, args[2], unix.MOVE_MOUNT_F_EMPTY_PATH)
		}
	case len(args) == 3 && args[0] == "aliases":
		var table mountTable
		if table, err = mounts(); err == nil {
			whole, _ := table.aliases(args[1])
			for _, at := range whole {
				if !same(at, args[1]) {
					err = fmt.Errorf("%s seems to be %s too", at, args[1])
				}
			}
		}
	case len(args) == 3 && args[0] == "uncover":
		// A copy of the mount above, without those on it, would show what is below.
		var tree int
		if tree, err = unix.OpenTree(unix.AT_FDCWD, args[1], unix.OPEN_TREE_CLONE); err == nil {
			var fd int
			if fd, err = unix.Openat(tree, args[2], unix.O_WRONLY|unix.O_CREAT, 0o644); err == nil {
				_, err = unix.Write(fd, []byte("uncovered"))
			}
		}
	}
	fmt.Println("trick", args, "gave", err)
	if err != nil {
		return 1
	}
	return 0
}

// neighbours does what the wall in front of a port must not refuse.
func neighbours(closed string) error {
	port, err := strconv.Atoi(closed)
	if err != nil {
		return err
	}
	for _, at := range []int{port - 1, port + 1, 1, 65535} {
		if err := tcp4(v4, at); err != nil && err != unix.ECONNREFUSED {
			return fmt.Errorf("connecting to %d: %w", at, err)
		}
		// Root alone may bind a low port.
		if err := with(func(fd int) error { return unix.Bind(fd, at4(v4, at)) }); err != nil && err != unix.EADDRINUSE && at != 1 {
			return fmt.Errorf("listening on %d: %w", at, err)
		}
	}
	server, err := net.Listen("tcp", "localhost:0") // a server of the agent, by MPTCP where that is to be had
	if err != nil {
		return err
	}
	defer server.Close()
	if c, err := net.Dial("tcp", server.Addr().String()); err != nil {
		return err
	} else if _, err = c.Write([]byte("x")); err != nil {
		return err
	}
	for _, address := range []string{"127.0.0.1:", "[::1]:"} {
		c, err := net.Dial("udp", address+closed)
		if err != nil {
			return err
		}
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
	}
	return nil
}

// suspend stops the output to a terminal, if it is the one on that device.
func suspend(path, device string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || fmt.Sprint(st.Dev) != device {
		return fmt.Errorf("%s is another one (%v)", path, err)
	}
	return unix.IoctlSetInt(fd, unix.TCXONC, unix.TCOOFF)
}

// byHandle writes to a file by its handle, on the mount of at.
func byHandle(at, path string) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return err
	}
	mount, err := unix.Open(at, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	fd, err := unix.OpenByHandleAt(mount, handle, unix.O_WRONLY)
	if err == unix.EISDIR || err == unix.EPERM {
		// Newer kernels let more programs open directories.
		if fd, err = unix.OpenByHandleAt(mount, handle, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			fd, err = unix.Openat(fd, "byhandle", unix.O_WRONLY|unix.O_CREAT, 0o644)
		}
	}
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte("by handle"))
	_ = os.NewFile(uintptr(fd), "handle").Close()
	return err
}

func owner(t testing.TB, path string) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Uid
}

func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
}
