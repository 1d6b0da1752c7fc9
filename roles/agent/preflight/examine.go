// Package preflight finds out before a long run whether a runner will work: is its program there and can this machine
// start it, which version is it, does that version know every flag of the command lines that the roles will get, is
// there a login, and is there one of the traps that let a run end at once, or do nothing, without an error that anybody
// would see.
//
// It spends no token and uses no network. The program is started with nothing but the arguments that print its version
// and its help (and codex once to run "true" in its sandbox), with an empty standard input and a bound of time, in the
// environment and the directory that the agent would get. A program of which nothing is known is only asked whether it
// works, and only if Examiner has Verify. A script that would take no notice of such a question and begin to work is
// never started.
//
// The flags are judged by the help of the installed program, not by a list that ages. A help that cannot be read leaves
// them unchecked, which is said and is no error.
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

// Examiner examines runners. It asks a program the same question once, for all runners of it. The zero value is ready;
// it is used by one goroutine at a time.
type Examiner struct {
	// Verify finds out whether a program of which nothing is known works, and what is broken in any program that fails.
	// Its error says what kept it from finding out. With nil such a program is not started.
	Verify func(context.Context, Question) (Check, error)

	answers map[string]answer
	checks  map[string]Check
	bound   time.Duration // of each question; 0 is that of patience
}

// Examine examines one runner. It takes as long as the program takes to print its version and its help: some tenths of
// a second to half a minute, at most 20 s for each (60 s for opencode). When ctx ends it returns soon, and what it
// returns is worth nothing.
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
	found     bool // and can be started
	version   string
	unchecked string   // unchecked says why its help is not to be asked for; "" when it is
	severity  Severity // that of an unknown flag: a wrapper may pass everything on all the same
	helps     []help   // those that it has printed
	check     *Check   // of a program of which nothing is known
}

// name is how messages call it: "codex 0.169.0".
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
	said := e.ask(ctx, s, l, false, "--version")
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

// maxSaid bounds what a program may print, in bytes.
const maxSaid = 1 << 20

type answer struct {
	out   string
	err   error
	bound time.Duration // that it had
}

// ask starts the program of a command line with these arguments only, in the line's environment and directory, with an
// empty standard input. merged adds standard error to the output: opencode prints its help there. The same question is
// asked once.
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

// code is the exit code; -1 when the program did not run to its end.
func (a answer) code() int {
	if failed, ok := errors.AsType[*proc.ToolError](a.err); ok {
		return failed.Code
	} else if a.err != nil {
		return -1
	}
	return 0
}

// why says in a few words how it failed.
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

// patience bounds one question: opencode takes 13 s to start on a quiet machine.
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
