package proc

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == SpawnerArg {
		os.Exit(SpawnerMain())
	}
	if len(os.Args) > 1 && os.Args[1] == superviseArg {
		os.Exit(supervise(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == launchedArg {
		os.Exit(launched(os.Args[2:]))
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("6") // most tests wait for something most of the time
	}
	goleak.VerifyTestMain(m)
}

// superviseArg makes the test binary a supervisor: LEVEL MARK SCRIPT. It prints the pid of its spawner process, what the
// script prints, and on stderr how the script ended. The script has the pid of the supervisor in $SUPERVISOR. The
// level "host" is the best one without a user namespace.
const superviseArg = "supervise"

func supervise(args []string) int {
	s, err := Start(Options{Level: Level(args[0]), host: args[0] == "host"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	fmt.Println("spawner", s.h.proc.Pid, s.Level())
	for _, n := range s.Notes() {
		fmt.Fprintln(os.Stderr, n)
	}
	res, err := s.Run(context.Background(), Spec{
		Argv:   []string{"bash", "-c", args[2]},
		Env:    []string{args[1], "PATH=" + os.Getenv("PATH"), fmt.Sprintf("SUPERVISOR=%d", os.Getpid())},
		Stdout: func(p []byte) { os.Stdout.Write(p) },
	})
	if err != nil || res.Err != nil {
		fmt.Fprintln(os.Stderr, err, res.Err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "ended", res.Ended, res.Code, res.LeftBehind)
	return 0
}

// eachLevel runs f once for each level that can be had here.
func eachLevel(t *testing.T, f func(t *testing.T, s *Spawner)) {
	for _, l := range available() {
		if l == ProcessGroup {
			continue // cannot promise what is tested
		}
		t.Run(string(l), func(t *testing.T) {
			t.Parallel()
			f(t, spawnerAt(t, l))
		})
	}
}

// spawnerAt starts a Spawner for the test; a level that cannot be had here skips it.
func spawnerAt(t testing.TB, l Level) *Spawner {
	t.Helper()
	s, err := Start(Options{Level: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if l != "" && s.Level() != l {
		t.Skipf("not to be had here: %s", strings.Join(s.Notes(), "; "))
	}
	return s
}

var markers atomic.Int64

// newMark returns an environment entry that no other process has.
func newMark() string {
	return fmt.Sprintf("PROC_TEST_MARK=%d-%d-%d", os.Getpid(), time.Now().UnixNano(), markers.Add(1))
}

// script is a bash command with a marker, and a working PATH.
func script(text string) Spec {
	mark := newMark()
	return Spec{Argv: []string{"bash", "-c", text}, Env: []string{mark, "PATH=" + os.Getenv("PATH")}, Marker: mark}
}

// quote returns a path as one word of a script.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

func mustRun(t testing.TB, s *Spawner, spec Spec) Result {
	t.Helper()
	res, err := s.Run(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// nothingLeft fails if a process with the marker lives, right now.
func nothingLeft(t testing.TB, mark string) {
	t.Helper()
	if left := withMark(mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
		Sweep(mark)
	}
}

// withMark lists the processes that have the marker: pid and command.
func withMark(mark string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[1-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(dir + "/environ")
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00")) {
			cmd, _ := os.ReadFile(dir + "/cmdline")
			found = append(found, filepath.Base(dir)+" "+string(bytes.ReplaceAll(cmd, []byte{0}, []byte(" "))))
		}
	}
	return found
}

// said returns a tap and a channel that is closed when the word has come through the tap.
func said(word string) (func([]byte), <-chan struct{}) {
	var all []byte
	ready := make(chan struct{})
	heard := false
	return func(p []byte) {
		all = append(all, p...)
		if !heard && bytes.Contains(all, []byte(word)) {
			heard = true
			close(ready)
		}
	}, ready
}

// cancelWhen returns a context that ends when c is closed.
func cancelWhen(t testing.TB, c <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		select {
		case <-c:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx
}
