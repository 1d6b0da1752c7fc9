package escalation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// childCaller says whether it may answer.
func childCaller([]string) error {
	blind, err := CheckCaller("/proc", os.Environ())
	fmt.Printf("%v|%s\n", err, blind)
	return nil
}

// An agent's process is refused, also if it has taken the variable out of the
// environment of the one that asks.
func TestAgentsAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("this system has no /proc: ", err)
	}
	direct, err := child(t, []string{MarkVariable + "=run-1"}, "caller").Output()
	if err != nil || !strings.Contains(string(direct), "this process has SUPERLOOP_MARK in its environment (run run-1)") {
		t.Errorf("%s, %v", direct, err)
	}
	// The shell keeps the variable, what it starts does not have it, and neither
	// has the shell between them.
	cmd := exec.Command("sh", "-c", `env -u SUPERLOOP_MARK sh -c '"$0"; true' "$0"; true`, os.Args[0])
	cmd.Env = append(os.Environ(), MarkVariable+"=run-2", childEnv+"=caller")
	below, err := cmd.Output()
	if err != nil || !strings.Contains(string(below), "(run run-2)") || !strings.Contains(string(below), "above this one has SUPERLOOP_MARK") {
		t.Errorf("%s, %v", below, err)
	}
}

// processes writes a process file system: pid -> parent, name, environment, command
// line.
type process struct {
	pid, parent  int
	name         string
	env, cmdline []string
	dark         bool
}

func processes(t *testing.T, self int, list ...process) string {
	t.Helper()
	root := t.TempDir()
	check(t, os.Symlink(strconv.Itoa(self), filepath.Join(root, "self")))
	for _, p := range list {
		dir := filepath.Join(root, strconv.Itoa(p.pid))
		check(t, os.Mkdir(dir, 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (%s) S %d 1 1 0", p.pid, p.name, p.parent), 0o644))
		check(t, os.WriteFile(filepath.Join(dir, "cmdline"), []byte(strings.Join(p.cmdline, "\x00")+"\x00"), 0o644))
		if !p.dark {
			check(t, os.WriteFile(filepath.Join(dir, "environ"), []byte(strings.Join(p.env, "\x00")+"\x00"), 0o644))
		}
	}
	return root
}

func TestCheckCaller(t *testing.T) {
	t.Parallel()
	init := process{pid: 1, name: "init"}
	shell := process{pid: 20, parent: 1, name: "sh) S 99 (", env: []string{"A=b", "XSUPERLOOP_MARK=x", "SUPERLOOP_MARKS=x"}, cmdline: []string{"sh"}}
	self := process{pid: 30, parent: 20, name: "superloop", env: []string{"A=b"}, cmdline: []string{"superloop", "approve-recovery"}}
	marked, spawner, dark, loop := shell, shell, shell, shell
	marked.env = []string{"A=b", "SUPERLOOP_MARK=run-9"}
	spawner.cmdline = []string{"superloop", "__spawn", "subreaper"}
	dark.dark = true
	loop.parent = 30
	for name, c := range map[string]struct {
		root    string
		environ []string
		pid     int // of the one that is found; -1: none is
		blind   string
	}{
		"nobody":           {processes(t, 30, init, shell, self), []string{"A=b"}, -1, ""},
		"own":              {processes(t, 30, init, shell, self), []string{"SUPERLOOP_MARK=run-9"}, 0, ""},
		"parent":           {processes(t, 30, init, marked, self), nil, 20, ""},
		"orphan":           {processes(t, 30, init, spawner, self), nil, 20, ""},
		"another user's":   {processes(t, 30, init, dark, self), nil, -1, "1 of the 3 processes"},
		"a parent is gone": {processes(t, 30, init, self), nil, -1, "end faster"},
		"a ring":           {processes(t, 30, loop, self), nil, -1, ""},
		"no /proc":         {filepath.Join(t.TempDir(), "none"), nil, -1, "only its own environment"},
		"no /proc, own":    {filepath.Join(t.TempDir(), "none"), []string{"SUPERLOOP_MARK="}, 0, ""},
	} {
		blind, err := CheckCaller(c.root, c.environ)
		var agent *AgentError
		if errors.As(err, &agent) != (c.pid >= 0) || agent != nil && agent.PID != c.pid {
			t.Errorf("%s: %v", name, err)
		}
		if (blind == "") != (c.blind == "") || !strings.Contains(blind, c.blind) {
			t.Errorf("%s: %q", name, blind)
		}
	}
}

// A process that asks and has ended is refused, since nobody can tell any more whose it was.
func TestCheckProcess(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckProcess("/proc", cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("a process that has ended: %v", err)
	}
	agent := exec.Command("cat")
	agent.Env = append(os.Environ(), MarkVariable+"=run-1")
	in, err := agent.StdinPipe()
	if err == nil {
		err = agent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = agent.Wait() }()
	if _, err := CheckProcess("/proc", agent.Process.Pid); !errors.As(err, new(*AgentError)) {
		t.Errorf("an agent: %v", err)
	}
	if blind, err := CheckProcess("/proc", 0); err != nil || blind == "" {
		t.Errorf("an unknown process: %q %v", blind, err)
	}
}
