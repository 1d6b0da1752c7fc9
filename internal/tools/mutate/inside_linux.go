package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside is the whole life of PID 1: it makes the mounts, starts the program,
// reaps what is orphaned and reports. When it ends, the kernel ends the rest.
func inside(args []string) int {
	runtime.LockOSThread() // the rights that are dropped are those of a thread
	for _, fd := range []int{lifelineFD, reportFD} {
		syscall.CloseOnExec(fd)
	}
	lifeline, report := os.NewFile(lifelineFD, "lifeline"), os.NewFile(reportFD, "report")
	if len(args) != 1 || lifeline == nil || report == nil {
		fmt.Fprintln(os.Stderr, "mutate: only mutate calls this")
		return 2
	}
	go func() {
		_, _ = lifeline.Read(make([]byte, 1)) // nothing is ever written
		os.Exit(2)
	}()
	// The kernel shields PID 1 from signals without a handler. Go has handlers
	// for most, so they are taken and dropped.
	signal.Notify(make(chan os.Signal, 1))

	var o order
	e := ended{}
	err := json.Unmarshal([]byte(args[0]), &o)
	if err == nil {
		e.OK, err = execute(o)
	}
	if err != nil {
		e = ended{Trouble: err.Error()}
	}
	if err := json.NewEncoder(report).Encode(e); err != nil {
		return 2
	}
	return 0
}

// execute runs the order to its end.
func execute(o order) (ok bool, err error) {
	if os.Getpid() != 1 {
		return false, errors.New("this process is not PID 1, so it is in nobody's namespace but the caller's")
	}
	if err := furnish(o); err != nil {
		return false, err
	}
	for _, l := range []struct {
		what int
		most uint64
	}{{unix.RLIMIT_DATA, 4 << 30}, {unix.RLIMIT_FSIZE, 1 << 30}, {unix.RLIMIT_CORE, 0}} {
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return false, fmt.Errorf("limiting what it may take: %w", err)
		}
	}
	if o.User { // the program has no rights that it would not have outside
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return false, fmt.Errorf("dropping rights: %w", err)
		}
	}
	if o.Binary == "" {
		return true, nil
	}
	for name, value := range map[string]string{"TMPDIR": o.Tmp, "PWD": o.Dir} {
		if err := os.Setenv(name, value); err != nil {
			return false, err
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return false, err
	}
	pid, err := syscall.ForkExec(o.Binary, append([]string{o.Binary}, o.Args...), &syscall.ProcAttr{
		Dir:   o.Dir,
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return false, fmt.Errorf("starting %s: %w", o.Binary, err)
	}
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return false, fmt.Errorf("waiting for %s: %w", o.Binary, err)
		case got == pid:
			return status.Exited() && status.ExitStatus() == 0, nil
		}
	}
}

// furnish makes the mounts: everything is read-only but for a temporary directory
// and the shared memory, which are new and empty, and /proc shows only this namespace.
func furnish(o order) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separating the mounts: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("making the mounts read-only: %w", err)
	}
	for _, dir := range []string{o.Tmp, "/dev/shm"} {
		err := unix.Mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1g,mode=1777")
		if err != nil && (dir == o.Tmp || !errors.Is(err, unix.ENOENT)) {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != "1" {
		return fmt.Errorf("mounting /proc: it shows the processes of another namespace (self is %q, %v)", self, err)
	}
	if o.User {
		return nil // what the loop below protects belongs to the real root
	}
	for _, file := range strings.Fields("/proc/sys /proc/sysrq-trigger") { // of the whole machine, not of the namespace
		if err := unix.Mount(file, file, "", unix.MS_BIND, ""); errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return fmt.Errorf("protecting %s: %w", file, err)
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, file, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("protecting %s: %w", file, err)
		}
	}
	return nil
}
