// Package preflight finds out before a long run whether a runner will work. It checks that the program exists and that
// this machine can start it, its version, that this version knows every flag of the command lines that the roles will
// get, and that there is a login. It also looks for known traps: settings with which a run ends at once or does
// nothing, without a visible error.
//
// It spends no token and uses no network. It starts the program only with the arguments that print its version and its
// help (and codex once to run "true" in its sandbox), with an empty standard input and a time bound, in the environment
// and the directory that the agent would get. A program that superloop does not know is only asked whether it works,
// and only if Examiner has Verify. A script that would ignore such a question and begin to work is never started.
//
// The flags are compared with the help of the installed program, not with a list that becomes outdated. If the help
// cannot be read, the flags stay unchecked. The report says so; it is no error.
package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent"
)

// Examiner examines runners. It starts a program with the same arguments only once, for all runners that use it. The
// zero value is ready for use. Only one goroutine may use an Examiner at a time.
type Examiner struct {
	// Verify finds out whether a program that superloop does not know works, and what is broken in any program that
	// fails. Its error says why it could not find out. If Verify is nil, an unknown program is not started.
	Verify func(context.Context, Question) (Check, error)

	answers map[string]answer
	checks  map[string]Check
	bound   time.Duration // the time bound of each start; 0: patience chooses it
}

// Examine examines one runner. It takes as long as the program takes to print its version and its help: some tenths of
// a second to half a minute, at most 20 s for each (60 s for opencode). When ctx ends, Examine returns soon, and the
// report is meaningless.
func (e *Examiner) Examine(ctx context.Context, r Request) Report {
	a := r.Adapter
	if a == nil {
		a = agent.For(r.CLI)
	}
	if e.answers == nil {
		e.answers, e.checks = map[string]answer{}, map[string]Check{}
	}
	rep := &Report{Runner: r.Runner, Roles: []string{}, Adapter: a.Name(), Commands: []CommandLine{}, Flags: []Flag{}, Findings: []Finding{},
		Login: agent.Login{State: agent.LoginUnknown}}
	for _, t := range r.Turns {
		if !slices.Contains(rep.Roles, t.Role) {
			rep.Roles = append(rep.Roles, t.Role)
		}
	}
	seen := map[string]*subject{}
	for _, l := range r.lines(a, rep) {
		s := seen[l.Argv[0]]
		if s == nil {
			s = e.meet(ctx, l, a, rep)
			seen[l.Argv[0]] = s
			if len(seen) == 1 {
				rep.Program, rep.Path, rep.File, rep.Version, rep.Unchecked = l.Argv[0], s.path, s.File, s.version, s.unchecked
				rep.Check = s.check
				s.login(l, rep)
			}
		}
		if s.found {
			e.traps(ctx, l, e.flags(ctx, l, s, rep), s, r, rep)
		}
	}
	rep.redact(agent.Secrets(r.Environ, r.CLI.Env))
	rep.judge(r.Spare)
	return *rep
}

type subject struct {
	program
	adapter   agent.Adapter
	found     bool // the program exists and can be started
	version   string
	unchecked string   // why superloop does not ask the program for its help; "" if it does
	severity  Severity // the severity of an unknown flag; only Warn for a wrapper, which may still pass the flag on
	helps     []help   // the helps that the program has printed
	check     *Check   // the result of Verify; only for a program that superloop does not know
}

// name returns the name for messages: "codex 0.169.0".
func (s *subject) name() string {
	if v := number().FindString(s.version); v != "" {
		return s.adapter.Name() + " " + v
	}
	return s.adapter.Name()
}

var number = pattern.Lazy(`[0-9]+(\.[0-9]+)+[-.0-9A-Za-z]*`)

// meet finds the program of a command line and asks it for its version.
func (e *Examiner) meet(ctx context.Context, l line, a agent.Adapter, rep *Report) *subject {
	s := &subject{adapter: a, severity: Error}
	if s.program, s.found = find(l, rep); !s.found {
		s.unchecked = "the program cannot be started"
		return s
	}
	base := filepath.Base(s.path)
	wrapped, deaf := s.wrapped()
	if wrapped && base != a.Name() && filepath.Base(s.Target) != a.Name() {
		s.severity = Warn
	}
	switch {
	case a.Profile().Help == nil:
		e.unknown(ctx, l, s, rep)
		return s
	case !a.Matches(base) && (s.Target == "" || !a.Matches(filepath.Base(s.Target))):
		s.unchecked = fmt.Sprintf("%s is not %s itself, and would answer for itself", base, a.Name())
		s.severity = Warn
		return s
	case deaf:
		s.unchecked = fmt.Sprintf("the script %s takes no notice of its arguments, and would begin to work", base)
		return s
	}
	said := e.ask(ctx, s, l, a.Name() == "pi", "--version") // pi prints it to standard error
	if said.err == nil {
		s.version = firstLine(said.out)
		return s
	}
	byHand := "try it by hand: " + s.path + " --version"
	s.unchecked = "it did not even tell its version"
	if errors.Is(said.err, context.DeadlineExceeded) {
		rep.add(Warn, l.at+".command", byHand, fmt.Sprintf("%s does not tell its version: %s", s.path, said.why()))
		return s
	}
	message := fmt.Sprintf("%s does not work: %s", s.path, said.why())
	if e.Verify != nil {
		if c, err := e.verify(ctx, s, l); err == nil && c.Broken && !c.TimedOut {
			message = fmt.Sprintf("%s is broken: %s", s.path, c.Why)
		}
	}
	rep.add(s.severity, l.at+".command", byHand, message)
	return s
}

func (s *subject) login(l line, rep *Report) {
	switch p := s.adapter.Profile(); {
	case !s.found:
	case p.Credential == nil:
		rep.Login.How = "nothing is known of how it logs in"
	default:
		if rep.Login, _ = p.Credential(agent.Request{CLI: l.cli}, l.Env); rep.Login.State == agent.LoginNo {
			rep.add(s.severity, "", "log in: "+p.Login, s.adapter.Name()+" has no login: "+rep.Login.How)
		}
	}
}

// maxSaid is the largest output of a program, in bytes.
const maxSaid = 1 << 20

type answer struct {
	out   string
	err   error
	bound time.Duration // the time bound of the start
}

// ask starts the program of a command line with the given arguments only, in the line's environment and directory, with
// an empty standard input. merged adds standard error to the output, because opencode prints its help to standard
// error. A second call for the same program and arguments returns the first answer.
func (e *Examiner) ask(ctx context.Context, s *subject, l line, merged bool, args ...string) answer {
	key := strings.Join(append([]string{l.env("PATH"), l.Dir, s.path}, args...), "\x00")
	if a, ok := e.answers[key]; ok {
		return a
	}
	argv, bound := append([]string{s.path}, args...), e.patience(s.adapter)
	if merged {
		argv = append([]string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh"}, argv...)
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	out, err := proc.Tool{Dir: l.Dir, Env: l.Env, Limit: maxSaid}.Run(bounded, argv...)
	a := answer{string(out), err, bound}
	if ctx.Err() == nil {
		e.answers[key] = a
	}
	return a
}

// code returns the exit code, or -1 if the program did not run to its end.
func (a answer) code() int {
	if failed, ok := errors.AsType[*proc.ToolError](a.err); ok {
		return failed.Code
	} else if a.err != nil {
		return -1
	}
	return 0
}

// why says in a few words how the program failed.
func (a answer) why() string {
	said := lastLine(a.out)
	failed, ran := errors.AsType[*proc.ToolError](a.err)
	if ran {
		said = cmp.Or(lastLine(failed.Stderr), said)
	}
	if said != "" {
		said = ": " + said
	}
	switch {
	case errors.Is(a.err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", a.bound)
	case errors.Is(a.err, proc.ErrTooMuchOutput):
		return fmt.Sprintf("more than %d bytes of output", maxSaid)
	case a.code() >= 0:
		return fmt.Sprintf("exit code %d%s", a.code(), said)
	case ran:
		return failed.Err.Error() + said
	}
	return a.err.Error()
}

// patience returns the time bound of one start. opencode takes 13 s to start on a quiet machine.
func (e *Examiner) patience(a agent.Adapter) time.Duration {
	if a.Name() == "opencode" {
		return cmp.Or(e.bound, 60*time.Second)
	}
	return cmp.Or(e.bound, 20*time.Second)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return plain(line)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return plain(text[strings.LastIndexByte(text, '\n')+1:])
}

func plain(line string) string { return text.Line(line, 200) }
