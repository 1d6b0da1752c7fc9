package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/verify"
	"github.com/superloop/superloop/roles/agent"
)

// Bounds of the verification of a tool.
const (
	verifyTime   = 5 * time.Second // of each command; there are at most six
	verifyGrace  = time.Second
	verifyOutput = 64 << 10 // bytes of each stream, of its beginning and of its end
)

// errLeaving: what was verified is not known, because superloop has to leave.
var errLeaving = errors.New("superloop has to leave")

// repairedFields are those of verify_self_repaired: the tool works, and its
// recipe's check does not show it.
type repairedFields struct {
	Tool     string `json:"tool"` // the recipe's id
	Original string `json:"original"`
	Repaired string `json:"repaired"`
	Method   string `json:"method"`
	ExitCode int    `json:"exit_code"` // of what was repaired
	Mode     string `json:"mode,omitempty"`
	Pattern  string `json:"pattern,omitempty"`
	// TimeSavedMS is what an agent would have needed at least to find it out.
	TimeSavedMS int64 `json:"time_saved_ms"`
}

// unverifiedFields are those of verify_self_repair_failed: an install has ended
// well, and nothing shows that its tool works, or it is broken.
type unverifiedFields struct {
	Tool     string `json:"tool"`
	Original string `json:"original"`
	ExitCode int    `json:"exit_code"` // of the original; -1: a signal or its time limit ended it, or it was not started
	Broken   bool   `json:"broken"`    // there is evidence that it does not work
	Why      string `json:"why"`
}

// installs is the recipe whose tool the present command brings or renews, ""
// for any other command: that of the chain's option whose command it is, or of
// the option that a tester or a person has proposed word by word.
func installs(s *loop.State) string {
	r := s.Recovery
	if r == nil || r.Attempt.Command == "" {
		return ""
	}
	if r.Chain != nil {
		for i := len(r.Chain.Levels) - 1; i >= 0; i-- {
			l := r.Chain.Levels[i]
			if o, ok := l.Option(l.Chosen); ok && l.Chosen != "" && o.Command == r.Attempt.Command {
				return o.Dep
			}
		}
		return ""
	}
	if s.Diagnosis != nil {
		for _, o := range s.Diagnosis.Options {
			if o.Command == r.Attempt.Command && o.Dep != "" {
				return o.Dep
			}
		}
	}
	return ""
}

// verifyInstalled looks whether the tool works that the last command has
// installed, once how that command ended is on the disk. It decides nothing: what
// it finds is recorded, the tests that follow are the judge. A check that asks the
// wrong question is repaired for this once; what the repository itself brings
// along is not run.
func (d *driver) verifyInstalled(shutdown context.Context) error {
	id := d.installed
	d.installed = ""
	if id == "" {
		return nil
	}
	a, err := d.rulesOfAid()
	if err != nil {
		d.log.Warn("an installed tool was not verified", zap.String("tool", id), zap.Error(err))
		return nil
	}
	recipe, ok := a.cat.Recipe(id)
	if !ok || recipe.Origin.Source == catalog.SourceRepository {
		return nil
	}
	d.coolDown() // the spawner has one command at a time
	t := &toolCheck{d: d, shutdown: shutdown, env: agent.Environment(environ(d.o), agent.Request{WorkDir: d.repo.Top, Repo: d.paths.Repo, LoopDir: d.paths.Loop,
		Loop: d.o.LoopID, RunID: d.state.RunID, Role: "verify", Iteration: d.state.Iteration, Attempt: 1})}
	out, err := verify.Repair(shutdown, verify.Tool{ID: recipe.ID, CLI: recipe.CLI, Verify: recipe.Verify}, t)
	switch {
	case errors.Is(err, errLeaving):
		return nil // the loop goes on, or leaves, as it would without
	case err != nil:
		d.log.Warn("an installed tool was not verified", zap.String("tool", id), zap.Error(err))
		return nil
	case out.Works && out.Repair == nil:
		return nil
	case out.Works:
		m := out.Repair
		return d.record("verify_self_repaired", repairedFields{Tool: id, Original: m.Original, Repaired: m.Repaired, Method: m.Method, ExitCode: m.ExitCode,
			Mode: out.Verify.Mode, Pattern: t.inert(out.Verify.Pattern), TimeSavedMS: m.TimeSaved.Milliseconds()})
	}
	f := unverifiedFields{Tool: id, Original: recipe.Verify.Command, ExitCode: t.first.Exit.Code,
		Broken: out.Analysis.Broken || verify.AnalyzeVerifyFailure(t.last.Stdout, t.last.Stderr, t.last.Exit, recipe.CLI).Broken, Why: t.inert(out.Why)}
	if t.first.Exit.TimedOut {
		f.ExitCode = -1
	}
	if t.first.Exit.NotStarted {
		f.Why = t.inert(t.first.Stderr)
		if recipe.PostEnv != "" {
			f.Why += "; its recipe says that PATH needs " + recipe.PostEnv
		}
	}
	return d.record("verify_self_repair_failed", f)
}

// toolCheck runs the commands of one verification as the tests are run: in the
// repository, in their environment and behind the same walls.
type toolCheck struct {
	d           *driver
	shutdown    context.Context
	env         []string
	first, last verify.Run
	ran         bool
}

// Run runs one command.
func (t *toolCheck) Run(_ context.Context, argv []string) (verify.Run, error) {
	run, err := t.run(argv)
	if err == nil && !t.ran {
		t.first, t.ran = run, true
	}
	t.last = run
	return run, err
}

func (t *toolCheck) run(argv []string) (verify.Run, error) {
	program := argv[0]
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(t.d.repo.Top, program)
	}
	if _, err := proc.LookPath(program, t.env); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return verify.Run{Stderr: err.Error(), Exit: verify.ExitInfo{Code: -1, NotStarted: true}}, nil
	}
	var res proc.Result
	var runErr error
	err := t.d.underKill(t.shutdown, func(kill context.Context, hurry <-chan struct{}) {
		res, runErr = t.d.agents.Run(kill, proc.Spec{Argv: argv, Dir: t.d.repo.Top, Env: t.env, Timeout: verifyTime, Grace: verifyGrace, Hurry: hurry,
			HeadTail: verifyOutput, Marker: mark(t.d.state.RunID)})
	})
	switch {
	case err != nil || runErr != nil:
		return verify.Run{}, fmt.Errorf("running %s: %w", argv[0], errors.Join(err, runErr))
	case res.Ended == proc.Killed:
		return verify.Run{}, errLeaving
	}
	run := verify.Run{Stdout: res.Stdout.Text(), Stderr: res.Stderr.Text(), Exit: verify.ExitInfo{Code: res.Code, Signal: res.Signal,
		TimedOut: res.Ended == proc.TimedOut, NotStarted: res.Ended == proc.NotStarted}}
	if run.Exit.NotStarted && res.Err != nil {
		run.Stderr = res.Err.Error()
	}
	return run, nil
}

// inert is what a tool has said, without the operator's secrets and at a length
// that an event may have.
func (t *toolCheck) inert(text string) string {
	text = cage.Secrets(environ(t.d.o)).String(text)
	return strings.ToValidUTF8(text[:min(len(text), maxLine)], "")
}
