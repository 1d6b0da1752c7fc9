package escalation

import (
	"bytes"
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

// MarkVariable stands in the environment of everything that a run starts; its value
// is the run's id.
const MarkVariable = "SUPERLOOP_MARK"

// AgentError says that a process descends from an agent, a test or a recovery that
// superloop runs, so that what it says is no person's answer.
type AgentError struct {
	PID int // of the process that shows it; 0: this one, by its own environment
	// Run is the run that it belongs to, "" if only its spawner is seen.
	Run string
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
	return "a person has to answer this, and this process was started by an agent that superloop runs: " + where + "; answer from a terminal of your own"
}

// maxAncestors bounds the walk; no real tree of processes is as deep.
const maxAncestors = 4096

// CheckCaller refuses, with an *AgentError, a process that descends from something
// that superloop runs. environ is its own environment (os.Environ), procfs is
// where the process file system is mounted ("/proc").
//
// It looks at its own environment and at those that its ancestors were started
// with, since an agent can take the variable away from what it starts but not from
// itself; and at whether an ancestor is a spawner of ours, which is where an
// orphan of an agent ends. blind says what could not be looked at, "" if
// nothing: other systems have no /proc, and then it is the own environment alone;
// a process of another user shows nothing.
//
// It keeps an agent from answering by mistake, or because a text told it to. A
// program of the same user that sets out to deceive it can: it is no wall.
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
	for range maxWalks {
		if blind, err = walk(procfs, pid); err == nil || !errors.Is(err, errGone) {
			return blind, err
		}
	}
	return "processes above this one end faster than they can be looked at", nil
}

// maxWalks is how often the walk begins anew when a process ends meanwhile: the
// one below it has another parent then.
const maxWalks = 3

var errGone = errors.New("a process above this one has ended")

func walk(procfs string, pid int) (blind string, err error) {
	hidden := 0
	seen := map[int]bool{}
	for pid > 0 && !seen[pid] && len(seen) < maxAncestors {
		seen[pid] = true
		p, err := ancestor(procfs, pid)
		switch {
		case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)) && len(seen) > 1:
			return "", errGone
		case err != nil:
			return fmt.Sprintf("the process %d, and those above it, cannot be looked at: %v", pid, err), nil
		case p.run != "":
			return "", &AgentError{PID: pid, Run: p.run}
		case p.spawner:
			return "", &AgentError{PID: pid}
		case p.dark:
			hidden++
		}
		pid = p.parent
	}
	if hidden > 0 {
		blind = fmt.Sprintf("%d of the %d processes from this one up do not show their environment", hidden, len(seen))
	}
	return blind, nil
}

// sight is what a process tells about itself.
type sight struct {
	parent  int
	run     string // of its mark
	spawner bool
	dark    bool // its environment may not be read
}

func ancestor(procfs string, pid int) (sight, error) {
	dir := filepath.Join(procfs, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return sight{}, err
	}
	var s sight
	// PID (NAME) STATE PPID; the name may hold anything, also parentheses.
	rest := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(rest) < 2 {
		return sight{}, fmt.Errorf("%s is not as proc_pid_stat(5) says", filepath.Join(dir, "stat"))
	}
	if s.parent, err = strconv.Atoi(string(rest[1])); err != nil {
		return sight{}, fmt.Errorf("%s: %w", filepath.Join(dir, "stat"), err)
	}
	if cmd, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
		words := bytes.Split(cmd, []byte{0})
		s.spawner = len(words) > 1 && string(words[1]) == proc.SpawnerArg
	}
	env, err := os.ReadFile(filepath.Join(dir, "environ"))
	s.dark = err != nil
	for e := range bytes.SplitSeq(env, []byte{0}) {
		if run, ok := bytes.CutPrefix(e, []byte(MarkVariable+"=")); ok {
			s.run = string(run)
			if s.run == "" {
				s.run = "?"
			}
		}
	}
	return s, nil
}
