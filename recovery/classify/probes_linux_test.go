package classify

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPortOwner(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if f := look(t, "/", ProbePortOwner, map[string]string{"port": port}); f.Holds != Yes || f.Value != strconv.Itoa(os.Getpid()) {
		t.Errorf("our own port: %+v", f)
	}
	if f := look(t, "/", ProbeService, map[string]string{"port": port}); f.Holds != Yes {
		t.Errorf("service on a port that listens: %+v", f)
	}
	l.Close()
	// A socket that is bound and does not listen keeps every other test from the port.
	held, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(held)
	if err := unix.Bind(held, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(held)
	if err != nil {
		t.Fatal(err)
	}
	port = strconv.Itoa(bound.(*unix.SockaddrInet4).Port)
	if f := look(t, "/", ProbeService, map[string]string{"port": port}); f.Holds != No {
		t.Errorf("service on a closed port: %+v", f)
	}
	if f := look(t, "/", ProbePortOwner, map[string]string{"port": port}); f.Holds != Unknown {
		t.Errorf("owner of a closed port: %+v", f)
	}
}

func TestLockHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock := write(t, dir, ".git/index.lock", "")
	at := map[string]string{"lock": lock}
	if f := look(t, dir, ProbeLockHolder, at); f.Holds == Yes {
		t.Errorf("a new lock that nobody has open: %+v", f)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	if f := look(t, dir, ProbeLockHolder, at); f.Holds != No || f.Value != "stale" {
		t.Errorf("an old lock that nobody has open: %+v", f)
	}
	file, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if f := look(t, dir, ProbeLockHolder, nil); f.Holds != Yes || f.Value != strconv.Itoa(os.Getpid()) {
		t.Errorf("a lock that we have open: %+v", f)
	}
	flocked := write(t, dir, "db", "")
	file2, err := os.Open(flocked)
	if err != nil {
		t.Fatal(err)
	}
	defer file2.Close()
	if err := unix.Flock(int(file2.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if f := look(t, dir, ProbeLockHolder, map[string]string{"lock": flocked}); f.Holds != Yes {
		t.Errorf("a file that we locked: %+v", f)
	}
	if f := look(t, dir, ProbeLockHolder, map[string]string{"lock": filepath.Join(dir, "none")}); f.Holds != No || f.Value != "gone" {
		t.Errorf("a lock that is gone: %+v", f)
	}
}

// A process that an ordinary user may not look into can only have made a lock that is younger than itself.
func TestStartedAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pid   int
		at    time.Duration
		after bool
	}{{os.Getpid(), -24 * time.Hour, true}, {os.Getpid(), 0, false}, {1 << 30, -24 * time.Hour, false}} {
		if got := startedAfter(c.pid, time.Now().Add(c.at)); got != c.after {
			t.Errorf("process %d started after %v: %t", c.pid, c.at, got)
		}
	}
	if takesNone(os.Getpid()) {
		t.Error("this process could take a lock")
	}
}

func TestSpaceAndPermission(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if f := look(t, dir, ProbeWritable, map[string]string{"path": "new/deep/file"}); f.Holds != Yes {
		t.Errorf("a directory of ours: %+v", f)
	}
	if f := look(t, dir, ProbeWritable, map[string]string{"path": "/proc/sys"}); f.Holds == Yes && os.Geteuid() != 0 {
		t.Errorf("/proc/sys: %+v", f)
	}
	if f := look(t, dir, ProbeFreeSpace, map[string]string{"path": "x"}); f.Holds == Unknown || f.Value == "" {
		t.Errorf("free space of a directory: %+v", f)
	}
	if f := look(t, "", ProbeFreeSpace, nil); f.Holds == Unknown || f.Detail == "" {
		t.Errorf("free space where commands mostly write: %+v", f)
	}
}
