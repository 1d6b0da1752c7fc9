package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/escalation"
)

// terminal is the two ends of a pseudo-terminal.
func terminal(t testing.TB) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() }) // nothing was written to keep
	raw, err := person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	var ioctl error
	if err := raw.Control(func(fd uintptr) {
		if ioctl = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioctl == nil {
			number, ioctl = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || ioctl != nil {
		t.Fatal(err, ioctl)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return person, program
}

// onTerminal starts the program with a terminal, waits until it asks, does what
// happens meanwhile, and types. What it showed comes back with its exit code.
func (n *testEnv) onTerminal(typed string, meanwhile func(shown string), args ...string) (int, string) {
	n.t.Helper()
	return n.types([]typing{{"? [y/N] ", meanwhile, typed}}, args...)
}

// typing is what an operator types when the program has shown something new.
type typing struct {
	when      string
	meanwhile func(shown string)
	typed     string
}

// types starts the program with a terminal and types. What it showed comes back
// with its exit code.
func (n *testEnv) types(all []typing, args ...string) (int, string) {
	n.t.Helper()
	person, program := terminal(n.t)
	cmd := exec.Command(n.path("bin/superloop"), args...)
	cmd.Dir, cmd.Env = n.path("repo"), n.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	if err := program.Close(); err != nil {
		n.t.Fatal(err)
	}
	var shown bytes.Buffer
	buf := make([]byte, 4096)
	for _, t := range all {
		for from := shown.Len(); !bytes.Contains(shown.Bytes()[from:], []byte(t.when)); {
			k, err := person.Read(buf)
			shown.Write(buf[:k])
			if err != nil {
				_ = cmd.Wait() // its exit code does not matter any more
				n.t.Fatalf("it ended without showing %q:\n%s", t.when, shown.String())
			}
		}
		if t.meanwhile != nil {
			t.meanwhile(shown.String())
		}
		if _, err := person.WriteString(t.typed); err != nil {
			n.t.Fatal(err)
		}
	}
	for {
		k, err := person.Read(buf)
		shown.Write(buf[:k])
		if err != nil { // EIO: nobody has the other end any more
			break
		}
	}
	_ = cmd.Wait() // its exit code is what is looked at
	return cmd.ProcessState.ExitCode(), shown.String()
}

// TestApproveOnATerminal: what was shown is what runs, or nothing does.
func TestApproveOnATerminal(t *testing.T) {
	t.Parallel()
	n := askingEnv(t)
	n.ask()

	code, shown := n.onTerminal("\n", nil, "approve-recovery")
	if code != exitFailed || n.question().State != escalation.Pending {
		t.Fatalf("Enter alone gave %d\n%s", code, shown)
	}
	code, shown = n.onTerminal("no\n", nil, "approve-recovery", "--edit", "touch mine")
	if code != exitFailed || !strings.Contains(shown, "yours instead: touch mine") || !strings.Contains(shown, "the policy of it: human") {
		t.Fatalf("no gave %d\n%s", code, shown)
	}

	// Another question takes its place while the operator reads.
	code, shown = n.onTerminal("y\n", func(string) {
		if code, out := n.superloop(nil, "run", "--fresh", "--exit-on-escalation"); code != exitHuman {
			t.Errorf("run --fresh gave %d\n%s", code, out)
		}
	}, "approve-recovery")
	if code != exitNothing || n.question().State != escalation.Pending {
		t.Fatalf("yes to a question that is over gave %d, and the one that is open is %s\n%s", code, n.question().State, shown)
	}
	if code, out := n.superloop(nil, "run", "--exit-on-escalation"); code != exitHuman || n.ran() != 0 {
		t.Fatalf("run gave %d, and the command ran %d times\n%s", code, n.ran(), out)
	}

	// Everything in the repository is changed while the operator reads.
	code, shown = n.onTerminal("y\n", func(string) { n.lie() }, "approve-recovery", "--by", "eve")
	if code != exitOK {
		t.Fatalf("yes gave %d\n%s", code, shown)
	}
	for _, part := range []string{"echo ran >> ran.txt && touch fixed", "it is broken", n.question().Digest[:16]} {
		if !strings.Contains(shown, part) {
			t.Errorf("it does not show %q:\n%s", part, shown)
		}
	}
	if err := os.Remove(n.path("repo/.superloop/loops/l/recovery.json")); err != nil {
		t.Fatal(err)
	}
	n.finishAsked("approved on a terminal", 1)
	if n.ran() != 1 {
		t.Fatalf("the command ran %d times", n.ran())
	}
	if _, err := os.Stat(n.path("repo/pwned")); err == nil {
		t.Fatal("what an agent wrote was run")
	}

	// What is over is not asked about.
	if code, out := n.superloop(nil, "approve-recovery"); code != exitNothing || !strings.Contains(out, "already decided") {
		t.Fatalf("a second approval gave %d\n%s", code, out)
	}
}

// lie replaces the command in all that an agent can write.
func (n *testEnv) lie() {
	n.t.Helper()
	const from, to = "echo ran >> ran.txt", "touch pwned"
	files, err := filepath.Glob(n.path("repo/.superloop/loops/l/proposals/*.json"))
	if err != nil || len(files) == 0 {
		n.t.Fatal(files, err)
	}
	for _, file := range append(files, n.path("repo/.superloop/loops/l/escalation.json")) {
		data, err := os.ReadFile(file)
		if err != nil {
			n.t.Fatal(err)
		}
		changed := bytes.ReplaceAll(data, []byte(from), []byte(to))
		if bytes.Equal(changed, data) {
			changed = bytes.ReplaceAll(data, []byte(`echo ran \u003e\u003e ran.txt`), []byte(to))
		}
		if bytes.Equal(changed, data) {
			n.t.Fatalf("the command does not stand in %s:\n%s", file, data)
		}
		if err := os.WriteFile(file, changed, 0o644); err != nil {
			n.t.Fatal(err)
		}
	}
	data, err := os.ReadFile(n.path("proposal.json"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.write("repo/.superloop/loops/l/recovery.json", strings.ReplaceAll(string(data), from, to))
}
