// Package verify checks whether a tool works, and repairs a verify section that asks the wrong question: a tool that
// does not know --version fails its check although it works.
//
// The proof that a tool works is an output that only a running program can write: a usage line, or the tool's own
// refusal of an argument. The tool's name and a long output prove nothing, because broken tools write them too.
// Evidence that the tool is broken - a missing library or module, a panic, a stack trace, a signal - outweighs
// everything else, in the check and in every fallback.
//
// Package verify never repairs a section that an operator wrote, and never changes any section: a repair is a copy.
package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/batch"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
)

// These are the methods of a repair.
const (
	OutputDetection = "output_detection" // the same command, whose output proves that the tool works
	FallbackHelp    = "fallback_help"    // --help instead of the command's question
	FallbackH       = "fallback_h"       // -h instead of the command's question
	// repairType is the value of RepairMetadata.Type.
	repairType = "verification_self_repair"
	// askingTime is the least time that an agent would need to examine a failed check.
	askingTime = 5 * time.Second
)

// Runner runs one command without a shell and with an empty standard input. The run time and the size of the kept
// output are bounded. An error means that the Runner cannot say how the command ended, for example because the context
// has ended. A missing program is no error: it is reported in ExitInfo.NotStarted.
type Runner interface {
	Run(ctx context.Context, argv []string) (Run, error)
}

// Run is the result of running a command.
type Run struct {
	Stdout, Stderr string
	Exit           ExitInfo
}

// RunOf makes a Run of the result of a process. If the process could not be started, Stderr holds the reason.
func RunOf(res proc.Result) Run {
	run := Run{Stdout: res.Stdout.Text(), Stderr: res.Stderr.Text(), Exit: ExitInfo{Code: res.Code, Signal: res.Signal,
		TimedOut: res.Ended == proc.TimedOut, NotStarted: res.Ended == proc.NotStarted}}
	if run.Exit.NotStarted && res.Err != nil {
		run.Stderr = res.Err.Error()
	}
	return run
}

// Tool is the tool that Repair verifies.
type Tool struct {
	ID, CLI string
	// Real is the name of the file that CLI leads to on the machine where it runs, such as fd for the link fdfind. It
	// may be "": then a usage text with that name is taken for another program's.
	Real   string
	Verify catalog.Verify
}

// RepairMetadata describes the last repair that was tried.
type RepairMetadata struct {
	Type      string        `json:"type"`
	Original  string        `json:"original"` // the original command
	Repaired  string        `json:"repaired"`
	Method    string        `json:"method"`
	ExitCode  int           `json:"exit_code"` // the exit code that the repaired section expects
	Succeeded bool          `json:"succeeded"`
	TimeSaved time.Duration `json:"time_saved"` // the least time saved by not asking an agent; 0 if the repair failed
}

// Outcome is the result of a verification.
type Outcome struct {
	Works    bool            `json:"works"` // the tool works, by the original check or by a repaired one
	Verify   catalog.Verify  `json:"verify"`
	Repair   *RepairMetadata `json:"repair,omitempty"` // nil if no repair was tried
	Analysis Analysis        `json:"analysis"`         // of the output of the first failure
	Why      string          `json:"why"`
	Runs     int             `json:"runs"`
}

// Repair verifies a tool. If the check fails and the tool is not broken, Repair looks for a check that passes: the same
// command with the output that it really writes, then --help, then -h. Each candidate must pass in a second run. Repair
// does not change the section of t. Outcome.Verify is a copy of the section that passed.
//
// Repair runs a section that an operator wrote and never repairs it.
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

// fallback is another question to the tool. run asks the question and returns the result.
type fallback struct {
	args   []string
	method string
	run    func(argv []string) (Run, error)
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
	s.out.Analysis = analyse(run.Stdout, run.Stderr, run.Exit, s.tool.asked(argv))
	s.out.Why = why + ": " + s.out.Analysis.Why
	if s.out.Verify.Origin == catalog.VerifyUser {
		s.out.Analysis.Repairable = false
		s.out.Why = why + ": an operator wrote this check, so that it is not repaired"
		return nil
	}
	if slices.Contains(harmful, baseName(argv[0])) {
		return s.mend(argv, s.run)
	}
	return s.mend(argv, s.run, fallback{[]string{"--help"}, FallbackHelp, s.run}, fallback{[]string{"-h"}, FallbackH, s.run})
}

// mend looks for a check that passes: the same command with the output that it really wrote, then the fallbacks. mend
// stops at a fallback that shows that the tool is broken.
func (s *session) mend(argv []string, again func([]string) (Run, error), fallbacks ...fallback) error {
	if s.out.Analysis.Broken || s.out.Analysis.ExitCode == 0 {
		return nil
	}
	if s.out.Analysis.Repairable {
		if done, err := s.candidate(argv, argv, s.out.Analysis, fallback{nil, OutputDetection, again}); done || err != nil {
			return err
		}
	}
	base, ok := asksOnly(argv)
	if !ok {
		return nil
	}
	for _, f := range fallbacks {
		next := append(base[:len(base):len(base)], f.args...)
		run, err := f.run(next)
		if err != nil {
			return err
		}
		a := analyseHelp(run.Stdout, run.Stderr, run.Exit, s.tool.asked(next))
		if a.Broken {
			s.out.Why = fmt.Sprintf("%s shows that it is broken: %s", text.Words(next), a.Why)
			return nil
		}
		if a.Repairable {
			if done, err := s.candidate(argv, next, a, f); done || err != nil {
				return err
			}
		}
	}
	return nil
}

// candidate runs a section that expects the output just seen. If the section passes, candidate stores it as the
// repaired section.
func (s *session) candidate(argv, next []string, a Analysis, f fallback) (bool, error) {
	v := catalog.Verify{Command: text.Words(next), Mode: a.SuggestedMode, Pattern: a.SuggestedPattern, ExitCode: a.ExitCode,
		Reason: "repaired: the tool works, and does not answer " + text.Words(argv), Origin: s.out.Verify.Origin}
	run, err := f.run(next)
	if err != nil {
		return false, err
	}
	s.out.Repair = &RepairMetadata{Type: repairType, Original: s.out.Verify.Command, Repaired: v.Command, Method: f.method, ExitCode: v.ExitCode}
	ok, why := Passes(v, run.Stdout, run.Stderr, run.Exit)
	if broken := analyse(run.Stdout, run.Stderr, run.Exit, s.tool.asked(next)); ok && broken.Broken {
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

// recorded is a run as a line of a batch describes it. Unknown keys belong to the caller and are ignored.
type recorded struct {
	Args     argList `json:"args"`
	ExitCode int     `json:"exit_code"`
	Signal   signal  `json:"signal"`
	TimedOut bool    `json:"timed_out"`
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
}

func (r *recorded) exit() ExitInfo {
	return ExitInfo{Code: r.ExitCode, Signal: string(r.Signal), TimedOut: r.TimedOut}
}

func (r *recorded) run([]string) (Run, error) { return Run{r.Stdout, r.Stderr, r.exit()}, nil }

// signal is the name of a signal, or its number as "SIG<n>".
type signal string

// UnmarshalJSON accepts a name or a number; the number 0 is no signal.
func (s *signal) UnmarshalJSON(b []byte) error {
	var number int
	if json.Unmarshal(b, &number) == nil {
		if number != 0 {
			*s = signal(fmt.Sprintf("SIG%d", number))
		}
		return nil
	}
	return text.Decode(b, (*string)(s))
}

// argList is a list of arguments, or one text that is split at blanks.
type argList []string

// UnmarshalJSON accepts a list or a text.
func (a *argList) UnmarshalJSON(b []byte) error {
	var words string
	if json.Unmarshal(b, &words) == nil {
		*a = strings.Fields(words)
		return nil
	}
	return text.Decode(b, (*[]string)(a))
}

type batchIn struct {
	ID      json.RawMessage `json:"id"`
	Tool    string          `json:"tool"`
	Command string          `json:"command"`
	recorded
	Fallbacks []recorded `json:"fallbacks"`
}

type batchOut struct {
	ID         json.RawMessage `json:"id"`
	Repairable bool            `json:"repairable"`
	Method     string          `json:"method"`
	Repaired   *batchSection   `json:"repaired"`
	Why        string          `json:"why"`
}

type batchSection struct {
	Command  string `json:"command"`
	Mode     string `json:"mode"`
	ExitCode int    `json:"exit_code"`
	Pattern  string `json:"pattern"`
}

// Batch reads one recorded verification per line and writes one answer per line, in the same order. If a line cannot be
// judged, the answer has its id and an error, and the batch goes on. Batch runs nothing: it uses the recorded
// fallbacks. The returned error is that of reading or writing.
func Batch(r io.Reader, w io.Writer) error { return batch.Objects(r, w, batchLine) }

func batchLine(in batchIn) any {
	if in.Tool == "" && in.Command == "" {
		return batch.Refuse(in.ID, "the line has neither tool nor command")
	}
	out, err := in.judge()
	if err != nil {
		return batch.Refuse(in.ID, err.Error())
	}
	return out
}

// judge does what Repair does, but with recorded runs. It also tries --help before -h.
func (in *batchIn) judge() (batchOut, error) {
	argv, err := split(cmp.Or(in.Command, text.Words([]string{in.Tool})+" --version"))
	if err != nil {
		return batchOut{}, err
	}
	s := &session{tool: Tool{CLI: cmp.Or(in.Tool, argv[0])}}
	s.out.Analysis = analyse(in.Stdout, in.Stderr, in.exit(), s.tool.asked(argv))
	s.out.Why = s.out.Analysis.Why
	var fallbacks []fallback
	for _, f := range in.Fallbacks {
		fallbacks = append(fallbacks, fallback{f.Args, methodOf(f.Args), f.run})
	}
	slices.SortStableFunc(fallbacks, func(a, b fallback) int { return strings.Compare(b.method, a.method) })
	if err := s.mend(argv, in.run, fallbacks...); err != nil {
		return batchOut{}, err
	}
	out := batchOut{ID: batch.ID(in.ID), Repairable: s.out.Works, Why: s.out.Why}
	if v := s.out.Verify; out.Repairable {
		out.Method = s.out.Repair.Method
		out.Repaired = &batchSection{Command: v.Command, Mode: v.Mode, ExitCode: v.ExitCode, Pattern: v.Pattern}
	}
	return out, nil
}

func methodOf(args []string) string {
	if slices.Contains(args, "-h") {
		return FallbackH
	}
	return FallbackHelp
}
