package escalation

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

// MarkVariable stands in the environment of everything that a run starts; its value is the run's id.
const MarkVariable = "SUPERLOOP_MARK"

// AgentError says that a process descends from what superloop runs: what it says is no operator's answer.
type AgentError struct {
	PID int    // of the process that shows it; 0: this one, by its own environment
	Run string // that it belongs to; "" if only its spawner is seen
}

func (e *AgentError) Error() string {
	where := "this process has " + MarkVariable + " in its environment"
	switch {
	case e.PID != 0 && e.Run != "":
		where = fmt.Sprintf("the process %d above this one has %s in its environment", e.PID, MarkVariable)
	case e.PID != 0:
		where = fmt.Sprintf("the process %d above this one is the one by which superloop runs commands", e.PID)
	}
	if e.Run != "" {
		where += " (run " + text.Display(cut(e.Run, maxName)) + ")"
	}
	return "an operator has to answer this, and this process was started by an agent that superloop runs: " + where + "; answer from a terminal of your own"
}

// CheckCaller refuses, with an *AgentError, a process that descends from something that superloop runs. environ is its
// own environment (os.Environ), procfs is where the process file system is mounted ("/proc").
//
// It looks at its own environment and at those that its ancestors were started with: an agent can take the variable
// away from what it starts, but not from itself. It also looks whether an ancestor is a spawner of superloop, which
// becomes the parent of an agent's orphans. blind says what could not be looked at, "" if nothing: without /proc it is
// the own environment alone, and a process of another user shows nothing.
//
// It keeps an agent from answering by mistake, or because a text told it to. A program that sets out to deceive it can.
func CheckCaller(procfs string, environ []string) (blind string, err error) {
	for _, e := range environ {
		if run, ok := strings.CutPrefix(e, MarkVariable+"="); ok {
			return "", &AgentError{Run: run}
		}
	}
	self, err := os.Readlink(filepath.Join(procfs, "self"))
	pid, bad := strconv.Atoi(self)
	if err != nil || bad != nil {
		return "the processes above this one cannot be seen on this system; only its own environment was looked at", nil
	}
	for range 3 { // when a process ends meanwhile, the one below it has another parent
		if blind, err = walk(procfs, pid); err == nil || !errors.Is(err, errGone) {
			return blind, err
		}
	}
	return "processes above this one end faster than they can be looked at", nil
}

var errGone = errors.New("a process above this one has ended")

// walk looks at the process and everything above it.
func walk(procfs string, pid int) (blind string, err error) {
	hidden, seen := 0, map[int]bool{}
	for pid > 0 && !seen[pid] {
		seen[pid] = true
		parent, dark, err := ancestor(procfs, pid)
		switch {
		case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)) && len(seen) > 1:
			return "", errGone
		case errors.As(err, new(*AgentError)):
			return "", err
		case err != nil:
			return fmt.Sprintf("the process %d, and those above it, cannot be looked at: %v", pid, err), nil
		case dark:
			hidden++
		}
		pid = parent
	}
	if hidden > 0 {
		blind = fmt.Sprintf("%d of the %d processes from this one up do not show their environment", hidden, len(seen))
	}
	return blind, nil
}

// ancestor gives a process's parent, and whether its environment is hidden. A marked one or a spawner is an *AgentError.
func ancestor(procfs string, pid int) (parent int, dark bool, err error) {
	dir := filepath.Join(procfs, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, false, err
	}
	// PID (NAME) STATE PPID; the name may hold anything, also parentheses.
	if fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(fields) > 1 {
		parent, err = strconv.Atoi(string(fields[1]))
	} else {
		err = errors.New("it is not as proc_pid_stat(5) says")
	}
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", filepath.Join(dir, "stat"), err)
	}
	env, unread := os.ReadFile(filepath.Join(dir, "environ"))
	for e := range bytes.SplitSeq(env, []byte{0}) {
		if run, ok := bytes.CutPrefix(e, []byte(MarkVariable+"=")); ok {
			return 0, false, &AgentError{PID: pid, Run: cmp.Or(string(run), "?")}
		}
	}
	if cmd, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
		if words := bytes.Split(cmd, []byte{0}); len(words) > 1 && string(words[1]) == proc.SpawnerArg {
			return 0, false, &AgentError{PID: pid}
		}
	}
	return parent, unread != nil, nil
}
