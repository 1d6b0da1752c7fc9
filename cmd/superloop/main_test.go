package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery/places"
	"github.com/superloop/superloop/recovery/steering"
)

// TestMain makes this test binary the real program under two names: as
// "superloop" in scripts, and as the processes that the program starts agents
// and commands with.
func TestMain(m *testing.M) {
	local.Main()
	// A superloop of a test lives for a fraction of a second, of which garbage collections would take a sixth.
	if err := os.Setenv("GOGC", "400"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// Most of a test's time is spent waiting for processes and for the disk.
	if n := runtime.GOMAXPROCS(0); n < 4 && !raceEnabled {
		if err := flag.Set("test.parallel", "4"); err != nil { // one on the command line wins
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "-test.") { // not the superloop of a script
		if err := os.Setenv("PATH", existing(os.Getenv("PATH"))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	testscript.Main(tidy{m}, map[string]func(){"superloop": superloopMain, "plant": plantMain})
}

// existing returns the directories of a PATH that exist. A superloop that a test kills leaves the links behind that keep
// the others free, in the home directory of whoever runs the tests.
func existing(path string) string {
	return strings.Join(slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		_, err := os.Stat(dir)
		return err != nil
	}), string(filepath.ListSeparator))
}

// tidy removes such links from directories of the system, which belong to the user of user.sh.
type tidy struct{ *testing.M }

func (t tidy) Run() int {
	code := t.M.Run()
	for _, e := range places.Entries() {
		for _, path := range e.Holds {
			if to, err := os.Readlink(path); filepath.IsAbs(path) && err == nil && to == steering.Free {
				_ = os.Remove(path) // as little as without it
			}
		}
	}
	return code
}

func superloopMain() {
	local.Main()
	disk, err := faultyDisk(os.Getenv("SUPERLOOP_TEST_FAULT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	if dir := os.Getenv("SUPERLOOP_TEST_TRUSTED"); dir != "" { // user.sh, in which the system's files are the user's
		proc.TrustInTests(dir)
	}
	a := newApp(disk, os.Stdin, os.Stdout, os.Stderr)
	if api := os.Getenv("SUPERLOOP_TEST_SLACK"); api != "" { // a Slack of the test, on this machine
		a.slack = slackSide{api: api, hosts: []string{"127.0.0.1"}}
	}
	a.sealBeyond, _ = strconv.ParseInt(os.Getenv("SUPERLOOP_TEST_SEAL"), 10, 64) // bytes
	os.Exit(a.main(os.Args))
}

// faultyDisk reads "<op>[@n]=<what>": at the n-th step of that name (default:
// the first; n may be "+" for the first and all later ones) what happens: kill,
// enospc, eio, short. "*" is any step, and then n counts all of them; a list of
// every step is written to the file that SUPERLOOP_TEST_STEPS names.
func faultyDisk(spec string) (durable.Disk, error) {
	disk := durable.OS()
	if list := os.Getenv("SUPERLOOP_TEST_STEPS"); list != "" {
		f, err := os.OpenFile(list, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return disk, err
		}
		return disk.WithFault(func(op string) error {
			_, err := fmt.Fprintln(f, op)
			return err
		}), nil
	}
	if spec == "" {
		return disk, nil
	}
	at, what, ok := strings.Cut(spec, "=")
	if !ok {
		return disk, fmt.Errorf("SUPERLOOP_TEST_FAULT=%q", spec)
	}
	op, nth, _ := strings.Cut(at, "@")
	n, always := 1, nth == "+"
	if nth != "" && !always {
		var err error
		if n, err = strconv.Atoi(nth); err != nil {
			return disk, err
		}
	}
	var count atomic.Int64
	return disk.WithFault(func(step string) error {
		if op != "*" && op != step {
			return nil
		}
		if seen := int(count.Add(1)); seen != n && !(always && seen > n) {
			return nil
		}
		switch what {
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		case "enospc":
			return syscall.ENOSPC
		case "eio":
			return syscall.EIO
		case "short":
			return &durable.ShortWrite{N: 7, Err: syscall.ENOSPC}
		}
		panic("SUPERLOOP_TEST_FAULT: " + what)
	}), nil
}
