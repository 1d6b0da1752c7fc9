package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
)

// The methods of a repair.
const (
	OutputDetection = "output_detection" // the same command, and its output proves that the tool works
	FallbackHelp    = "fallback_help"    // --help instead
	FallbackH       = "fallback_h"       // -h instead
)

// repairType is the kind of repair that RepairMetadata tells of.
const repairType = "verification_self_repair"

// askingTime is what it takes at least to have an agent look at a failed check.
const askingTime = 5 * time.Second

// Runner runs one command: without a shell, with nothing to read on standard input, for a bounded time, and keeping a
// bounded part of the output. The error is for what keeps it from saying how the command ended, such as the end of the
// context; that a program is not there is ExitInfo.NotStarted.
type Runner interface {
	Run(ctx context.Context, argv []string) (Run, error)
}

// Run is how a command went.
type Run struct {
	Stdout, Stderr string
	Exit           ExitInfo
}

// RunOf is how a process went. What kept it from being started stands in Stderr.
func RunOf(res proc.Result) Run {
	run := Run{Stdout: res.Stdout.Text(), Stderr: res.Stderr.Text(), Exit: ExitInfo{Code: res.Code, Signal: res.Signal,
		TimedOut: res.Ended == proc.TimedOut, NotStarted: res.Ended == proc.NotStarted}}
	if run.Exit.NotStarted && res.Err != nil {
		run.Stderr = res.Err.Error()
	}
	return run
}

// Tool is what is to be verified.
type Tool struct {
	ID, CLI string
	Verify  catalog.Verify
}

// RepairMetadata tells of one repair, or of one that was tried in vain.
type RepairMetadata struct {
	Type      string        `json:"type"`
	Original  string        `json:"original"` // the commands
	Repaired  string        `json:"repaired"`
	Method    string        `json:"method"`
	ExitCode  int           `json:"exit_code"` // that the repaired command ends with
	Succeeded bool          `json:"succeeded"`
	TimeSaved time.Duration `json:"time_saved"` // against asking an agent, at least; 0 if it failed
}

// Outcome is what became of a verification.
type Outcome struct {
	Works    bool            `json:"works"` // as it is, or as it was repaired
	Verify   catalog.Verify  `json:"verify"`
	Repair   *RepairMetadata `json:"repair,omitempty"` // nil if none was tried
	Analysis Analysis        `json:"analysis"`         // of the first failure
	Why      string          `json:"why"`
	Runs     int             `json:"runs"`
}

// Repair verifies a tool, and if the check fails without the tool being broken, looks for one that fits: the same
// command with what it really writes, then --help, then -h. Each candidate must pass when it is run again. The section
// of t is not changed: Outcome.Verify is the one that passed, a copy.
//
// A section that an operator wrote is run and never repaired.
func Repair(ctx context.Context, t Tool, r Runner) (Outcome, error) {
	s := &session{ctx: ctx, tool: t, runner: r, begun: time.Now(), out: Outcome{Verify: t.Verify}}
	s.tool.CLI = cmp.Or(t.CLI, t.ID)
	s.out.Verify.Command = cmp.Or(t.Verify.Command, s.tool.CLI+" --version")
	argv, err := split(s.out.Verify.Command)
	if err != nil {
		return s.out, fmt.Errorf("verifying %s: %w", t.ID, err)
	}
	if err := s.verify(argv); err != nil {
		return s.out, fmt.Errorf("verifying %s: %w", t.ID, err)
	}
	return s.out, nil
}

// session is one call of Repair.
type session struct {
	ctx    context.Context
	tool   Tool
	runner Runner
	begun  time.Time
	out    Outcome
}

func (s *session) run(argv []string) (Run, error) {
	s.out.Runs++
	return s.runner.Run(s.ctx, argv)
}

func (s *session) verify(argv []string) error {
	run, err := s.run(argv)
	if err != nil {
		return err
	}
	ok, why := Passes(s.out.Verify, run.Stdout, run.Stderr, run.Exit)
	if ok {
		s.out.Works, s.out.Why = true, "it works"
		return nil
	}
	s.out.Analysis = analyse(run.Stdout, run.Stderr, run.Exit, s.tool.CLI, argv[1:])
	s.out.Why = why + ": " + s.out.Analysis.Why
	if s.out.Verify.Origin == catalog.VerifyUser {
		s.out.Analysis.Repairable = false
		s.out.Why = why + ": an operator wrote this check, so that it is not repaired"
		return nil
	}
	if s.out.Analysis.Broken || run.Exit.Code == 0 {
		return nil
	}
	if s.out.Analysis.Repairable {
		done, err := s.candidate(argv, argv, OutputDetection, s.out.Analysis)
		if done || err != nil {
			return err
		}
	}
	return s.fallbacks(argv)
}

// fallbacks tries --help and -h. One that shows that the tool is broken ends it.
func (s *session) fallbacks(argv []string) error {
	base, ok := asksOnly(argv)
	if !ok || slices.Contains(harmful, baseName(argv[0])) {
		return nil
	}
	for _, f := range []struct{ arg, method string }{{"--help", FallbackHelp}, {"-h", FallbackH}} {
		next := append(base[:len(base):len(base)], f.arg)
		run, err := s.run(next)
		if err != nil {
			return err
		}
		a := analyseHelp(run.Stdout, run.Stderr, run.Exit, s.tool.CLI, next[1:])
		if a.Broken {
			s.out.Why = fmt.Sprintf("%s shows that it is broken: %s", text.Words(next), a.Why)
			return nil
		}
		if !a.Repairable {
			continue
		}
		if done, err := s.candidate(argv, next, f.method, a); done || err != nil {
			return err
		}
	}
	return nil
}

// candidate runs a repaired section, and takes it if it passes.
func (s *session) candidate(argv, next []string, method string, a Analysis) (bool, error) {
	v := repaired(s.out.Verify, next, a, text.Words(argv))
	run, err := s.run(next)
	if err != nil {
		return false, err
	}
	s.out.Repair = &RepairMetadata{Type: repairType, Original: s.out.Verify.Command, Repaired: v.Command, Method: method, ExitCode: v.ExitCode}
	ok, why := Passes(v, run.Stdout, run.Stderr, run.Exit)
	if broken := analyse(run.Stdout, run.Stderr, run.Exit, s.tool.CLI, next[1:]); ok && broken.Broken {
		ok, why = false, broken.Why
	}
	if !ok {
		s.out.Why = "the repaired check failed when it was run again: " + why
		return false, nil
	}
	s.out.Repair.Succeeded = true
	s.out.Repair.TimeSaved = max(0, askingTime-time.Since(s.begun))
	s.out.Works, s.out.Verify, s.out.Why = true, v, a.Why
	return true, nil
}

// repaired is a section that expects what was seen.
func repaired(old catalog.Verify, argv []string, a Analysis, asked string) catalog.Verify {
	return catalog.Verify{
		Command: text.Words(argv), Mode: a.SuggestedMode, Pattern: a.SuggestedPattern, ExitCode: a.ExitCode,
		Reason: "repaired: the tool works, and does not answer " + asked, Origin: old.Origin,
	}
}
