package durable

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// childEnv makes the test binary play a process that is to be killed, or that
// has to live under a limit. Its value is the part: "name arg arg...".
const childEnv = "DURABLE_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		f := strings.Split(part, "\n")
		if err := children[f[0]](f[1:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var children = map[string]func(args []string) error{
	"kill":  childKill,
	"lock":  childLock,
	"limit": childLimit,
}

type child struct {
	*os.Process
	out *bufio.Reader
}

func spawn(t *testing.T, part ...string) child {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); hold.Close() })
	p, err := os.StartProcess(os.Args[0], []string{os.Args[0]}, &os.ProcAttr{
		Env:   append(os.Environ(), childEnv+"="+strings.Join(part, "\n")),
		Files: []*os.File{in, w, os.Stderr},
	})
	w.Close()
	in.Close()
	if err != nil {
		t.Fatal(err)
	}
	return child{p, bufio.NewReader(r)}
}

func (c child) wait(t *testing.T) syscall.WaitStatus {
	t.Helper()
	st, err := c.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return st.Sys().(syscall.WaitStatus)
}

// childKill carries out one scenario and dies of SIGKILL at the n-th step.
func childKill(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	d := OS().WithFault(func(string) error {
		if n--; n < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
		return nil
	})
	for _, s := range scenarios {
		if s.name == args[0] {
			return s.run(d, args[2])
		}
	}
	return fmt.Errorf("no scenario %q", args[0])
}

// childLock holds a lock until it is killed, or its parent is gone.
func childLock(args []string) error {
	l, err := OS().Lock(args[0], []byte("the child"))
	if err != nil {
		return err
	}
	fmt.Println("locked")
	_, _ = os.Stdin.Read(make([]byte, 1)) // ends if the parent does
	return l.Unlock()
}
