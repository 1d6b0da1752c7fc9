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

// MarkVariable is an environment variable in every process that a run starts. Its value is the run's id.
const MarkVariable = "SUPERLOOP_MARK"

// AgentError says that a process descends from a process that superloop runs, so it may not answer for an operator.
type AgentError struct {
	PID int    // the process that shows it; 0 means this process, by its own environment
	Run string // the run that the process belongs to; "" if only its spawner was found
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

// CheckCaller refuses a process that descends from a process that superloop runs. The error is then an *AgentError.
// environ is the caller's own environment (os.Environ). procfs is the mount point of the process file system ("/proc").
//
// CheckCaller searches the caller's environment, and the environments with which the caller's ancestors were started,
// for MarkVariable. An agent can remove the variable from the environment of its children but not from its own.
// CheckCaller also refuses a caller that has a spawner of superloop among its ancestors, because a spawner becomes the
// parent of an agent's orphans. blind says what CheckCaller could not read, "" if it could read everything. Without
// /proc it reads only the caller's own environment. Processes of other users do not show theirs.
//
// CheckCaller keeps an agent from answering by mistake, or because a text told it to. A program that sets out to
// deceive CheckCaller can do so.
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
	return CheckProcess(procfs, pid)
}

// CheckProcess is CheckCaller for another process. It refuses a process that has ended: what asks in its name is unknown.
// pid 0 stands for a process that the system does not tell.
func CheckProcess(procfs string, pid int) (blind string, err error) {
	if pid == 0 {
		return "the system does not tell which process asks", nil
	}
	for range 3 { // if a process ends meanwhile, its child gets another parent
		if blind, err = walk(procfs, pid); err == nil || !errors.Is(err, errGone) {
			return blind, err
		}
	}
	return "processes above this one end faster than they can be looked at", nil
}

var errGone = errors.New("a process above this one has ended")

// walk checks the process and all its ancestors.
func walk(procfs string, pid int) (blind string, err error) {
	hidden, seen := 0, map[int]bool{}
	for pid > 0 && !seen[pid] {
		seen[pid] = true
		parent, dark, err := ancestor(procfs, pid)
		switch {
		case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)) && len(seen) == 1:
			return "", fmt.Errorf("the process %d that asks is gone, so nobody can tell whose it was", pid)
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

// ancestor returns a process's parent, and whether the process hides its environment. For a process with MarkVariable
// and for a spawner it returns an *AgentError.
func ancestor(procfs string, pid int) (parent int, dark bool, err error) {
	dir := filepath.Join(procfs, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, false, err
	}
	// The format is PID (NAME) STATE PPID. NAME may hold any character, also parentheses.
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
