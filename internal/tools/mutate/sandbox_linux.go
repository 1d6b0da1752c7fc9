package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// newSandbox tries which namespaces can be had: without a user namespace, which needs root, or with one.
func newSandbox(ctx context.Context) (sandbox, error) {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	var tried []error
	for _, user := range []string{"without", "with"} {
		s := func(ctx context.Context, dir, tmp string, argv ...string) (bool, []byte, error) {
			return isolated(ctx, user, dir, tmp, argv)
		}
		_, _, err := s(ctx, "/", tmp, "true")
		if err == nil {
			return s, nil
		}
		tried = append(tried, fmt.Errorf("%s a user namespace: %w", user, err))
	}
	return nil, errors.Join(tried...)
}

// trouble is the exit status of PID 1 when it could not start the program.
const trouble = 125

// isolated runs argv in namespaces of its own and reports whether its exit status is 0. When ctx ends, or this process,
// everything that it has started ends.
func isolated(ctx context.Context, user, dir, tmp string, argv []string) (ok bool, output []byte, err error) {
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	// The link and not its target: go run removes its binary only when it ends.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{insideArg, user, tmp}, argv...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "TMPDIR="+tmp)
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC,
		Setsid:     true, // the terminal's Ctrl-C is for mutate
		Pdeathsig:  syscall.SIGKILL,
	}
	if user == "with" {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		if os.Geteuid() != 0 { // else it would lose the right to mount with its exec
			cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		}
	}
	err = cmd.Run()
	switch {
	case err == nil || ctx.Err() != nil:
		return err == nil, said, ctx.Err()
	case cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 1:
		return false, said, nil
	}
	return false, said, fmt.Errorf("making namespaces: %w\n%s", err, said)
}

// tail keeps the end of what is written.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-16<<10):]
	return len(p), nil
}

// inside is PID 1 of the namespaces: it makes the mounts and sets the limits, then becomes a shell that starts the
// program and reaps what is orphaned. A shell without traps has no handlers, so no signal from inside reaches it. When
// it ends, the kernel ends the rest.
func inside(args []string) int {
	runtime.LockOSThread() // the rights that are dropped are those of a thread
	err := furnish(args[0] == "with", args[1])
	if err == nil {
		err = syscall.Exec("/bin/sh", append([]string{"sh", "-c", `"$@" || exit 1`, "sh"}, args[2:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	return trouble
}

// furnish makes the mounts and sets the limits. Everything is read-only but for tmp and the shared memory, which are
// new and empty, and /proc shows only this namespace.
func furnish(user bool, tmp string) error {
	if os.Getpid() != 1 {
		return errors.New("this process is not PID 1, so it is in nobody's namespace but the caller's")
	}
	mount := func(source, at, kind string, flags uintptr, data string) error {
		if err := unix.Mount(source, at, kind, flags, data); err != nil {
			return fmt.Errorf("mounting %s: %w", at, err)
		}
		return nil
	}
	readOnly := func(at string, flags uint) error {
		if err := unix.MountSetattr(unix.AT_FDCWD, at, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("making %s read-only: %w", at, err)
		}
		return nil
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := readOnly("/", unix.AT_RECURSIVE); err != nil {
		return err
	}
	for _, dir := range []string{tmp, "/dev/shm"} {
		err := mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1g,mode=1777")
		if err != nil && (dir == tmp || !errors.Is(err, unix.ENOENT)) {
			return err
		}
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != "1" {
		return fmt.Errorf("mounting /proc: it shows the processes of another namespace (self is %q, %v)", self, err)
	}
	for _, file := range []string{"/proc/sys", "/proc/sysrq-trigger"} { // of the whole machine, not of the namespace
		if user {
			break // they belong to the real root
		}
		err := mount(file, file, "", unix.MS_BIND, "")
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			err = readOnly(file, 0)
		}
		if err != nil {
			return err
		}
	}
	for what, most := range map[int]uint64{unix.RLIMIT_DATA: 4 << 30, unix.RLIMIT_FSIZE: 1 << 30, unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limiting what it may take: %w", err)
		}
	}
	if user { // the program has no rights that it would not have outside
		return os.NewSyscallError("dropping rights", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
	}
	return nil
}
