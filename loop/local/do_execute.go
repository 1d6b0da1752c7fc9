package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/undo"
)

// Bounds of a recovery.
const (
	recoveryGrace = 5 * time.Second // between TERM and KILL at its deadline
	eventHead     = 1 << 10         // bytes of its output in the event
	eventTail     = 3 << 10
	undoSets      = 20                  // how many are kept
	undoAge       = 14 * 24 * time.Hour // and for how long
)

// executeRecovery runs the approved command in its cage. What it is about to
// overwrite is kept first, then everything that the approval stands on is looked
// at once more, then the intent is on the disk, and only then it begins.
func (d *driver) executeRecovery(shutdown context.Context, e loop.Effect) (loop.Fact, error) {
	r := d.state.Recovery
	if r == nil {
		return nil, errors.New("there is no recovery to execute")
	}
	timeout, _ := capTimeout(ms(r.Attempt.TimeoutMS), e.LimitMS)
	j, changed, err := d.lookAgain(shutdown, r)
	if err != nil || changed != nil {
		return changed, err
	}
	p, err := d.prepare(r, j, timeout)
	if err != nil {
		return nil, err
	}
	fact, err := d.intend(shutdown, p, loop.Executing{N: r.N, ID: e.ID, Source: r.Approved, Command: r.Attempt.Command, WorkingDir: j.place.Dir,
		TimeoutMS: timeout.Milliseconds(), Network: string(p.spec.Network), Undo: p.kept, UndoNote: p.note, LogFile: d.paths.Rel(p.path)})
	if err != nil || fact != nil {
		return fact, errors.Join(err, d.unprepare(p))
	}
	var res cage.Result
	var runErr error
	err = d.underKill(shutdown, func(kill context.Context, hurry <-chan struct{}) {
		p.spec.Hurry = hurry
		res, runErr = cage.Run(kill, d.spawner, p.spec)
	})
	if cerr := p.log.Close(); cerr != nil && res.OutputErr == nil {
		res.OutputErr = cerr
	}
	if rerr := p.remove(); rerr != nil {
		d.log.Warn("the recovery's temporary files stay", zap.Error(rerr))
	}
	if p.kept != "" {
		d.sealUndo(shutdown, p.kept)
	}
	if err != nil {
		return nil, err
	}
	if errors.Is(runErr, proc.ErrSpawnerLost) {
		return loop.Lost{Of: loop.To(e), Why: runErr.Error()}, nil
	}
	f := executedFact(e.ID, r, res, runErr)
	f.LogFile = d.paths.Rel(p.path)
	if !f.OK() && f.Ended == "exited" {
		d.cured(shutdown, learn.Failed)
	}
	if r.Approved == loop.SourceHuman {
		d.endApproved(shutdown, r, f)
	}
	return f, nil
}

// intend looks once more at all that the approval stands on, after everything
// that takes its time, and puts the intent on the disk. The fact is what has come
// in between; then nothing may be begun.
func (d *driver) intend(ctx context.Context, p *preparation, f loop.Executing) (loop.Fact, error) {
	r := d.state.Recovery
	j, changed, err := d.lookAgain(ctx, r)
	if err != nil || changed != nil {
		return changed, err
	}
	if j.place != p.spec.Place || j.policy.Digest != p.policy || r.Approved == loop.SourceAuto && j.inputs != r.InputsDigest {
		return d.judgeAnew(ctx, r.Attempt, r.Fallback)
	}
	if r.Approved == loop.SourceHuman {
		if fact, err := d.beginApproved(ctx, r, j); fact != nil || err != nil {
			return fact, err
		}
	}
	f.PolicyDigest, f.InputsDigest = j.PolicyDigest, j.inputs
	return nil, d.step(f)
}

// lookAgain judges an approved command as things are now. An automatic approval
// holds as long as the policy gives it, a person's whatever it says (whether it
// still is what they approved, beginApproved sees). The fact is what has come in
// between.
func (d *driver) lookAgain(ctx context.Context, r *loop.RecoveryState) (judged, loop.Fact, error) {
	j, err := d.judge(ctx, r.Attempt)
	if err != nil {
		return j, nil, err
	}
	if j.Decision == action.Auto || r.Approved == loop.SourceHuman && j.Decision != action.Invalid {
		return j, nil, nil
	}
	fact, err := d.judgeAnew(ctx, r.Attempt, r.Fallback)
	return j, fact, err
}

// cageSpec is the order for the cage.
func (d *driver) cageSpec(r *loop.RecoveryState, j judged, tmp string, log *durable.File, timeout time.Duration) cage.Spec {
	base := d.host.Env()
	set := j.policy.Settings
	env := d.recoveryEnv(set.EnvPassthrough, tmp)
	home := variable(base, "HOME")
	writable := append([]string{tmp}, d.cachesOf(home, variable(env, "PATH"))...)
	for _, c := range set.Sandbox.Caches {
		if len(c) > 2 && c[:2] == "~/" {
			c = filepath.Join(home, c[2:])
		}
		writable = append(writable, c)
	}
	s := cage.Spec{Command: r.Attempt.Command, Place: j.place, Env: env, Writable: writable,
		Protected: cage.Protected(d.repo.Top), Hidden: append(cage.Sockets(), d.paths.State),
		Network: cage.Network(set.NetworkOf(r.Attempt.Command)), Timeout: timeout, Grace: recoveryGrace,
		Output: log, Secrets: cage.Secrets(base), Marker: effects.Mark(d.state.RunID)}
	if set.Sandbox.Required {
		s.Required = cage.Landlock
	}
	return s
}

// cachesOf are the package managers' caches; they are looked for once in a run.
func (d *driver) cachesOf(home, path string) []string {
	if d.caches == nil {
		d.caches = append([]string{}, cage.Caches(home, path)...)
	}
	return d.caches
}

// recoveryEnv is what a recovery command sees of the environment.
func (d *driver) recoveryEnv(passthrough []string, tmp string) []string {
	return cage.Environment(d.host.Env(), passthrough, d.repo.Top, tmp)
}

// executedFact is how the command ended.
func executedFact(id string, r *loop.RecoveryState, res cage.Result, runErr error) loop.Executed {
	f := loop.Executed{N: r.N, ID: id, Command: r.Attempt.Command, ExitCode: res.Code, Signal: res.Signal, Ended: string(res.Ended),
		DurationMS: res.Duration.Milliseconds(), OutputBytes: res.Output.Bytes, LeftBehind: res.LeftBehind, Appeared: res.Appeared}
	f.OutputHead, f.OutputTail = ends(res.Output)
	box := res.Sandbox
	f.Sandbox = &loop.SandboxFact{Level: string(box.Level), LandlockABI: box.LandlockABI, MountNS: box.MountNS, UserNS: box.UserNS,
		NetNS: box.NetNS, Tree: string(box.Tree), Cgroup: box.Cgroup, Notes: box.Notes}
	switch {
	case runErr != nil:
		f.Ended, f.ExitCode, f.Error = "not_started", -1, runErr.Error()
		var refused *cage.RefusedError
		if errors.As(runErr, &refused) {
			f.Sandbox.Level, f.Sandbox.Notes = string(refused.Sandbox.Level), refused.Sandbox.Notes
		}
	case res.Ended == proc.TimedOut:
		f.Error = fmt.Sprintf("timed out after %s", ms(r.Attempt.TimeoutMS))
	case res.Ended == cage.OutputLimit:
		f.Error = fmt.Sprintf("stopped: it printed more than %d MiB", cage.DefaultOutputLimit>>20)
	case res.Ended == proc.Killed:
		f.Error = "ended because superloop had to leave"
	case res.Err != nil:
		f.Error = res.Err.Error()
	case res.Code == 126 || res.Code == 127:
		f.Error = fmt.Sprintf("exit code %d: bash found nothing that it could run", res.Code)
	}
	return f
}

// ends are the beginning and the end of what was printed, as an event has them.
func ends(c proc.Capture) (head, tail string) {
	all := c.Head
	if !c.Truncated {
		all = append(append([]byte(nil), c.Head...), c.Tail...)
		if len(all) <= eventHead+eventTail {
			return "", string(all)
		}
		return string(all[:eventHead]), string(all[len(all)-eventTail:])
	}
	return string(all[:min(len(all), eventHead)]), string(c.Tail[max(0, len(c.Tail)-eventTail):])
}

func (d *driver) undoStore() undo.Store {
	return undo.Store{Disk: d.o.Disk, Dir: d.paths.Undo(), Repo: d.repo.Top}
}

// keepForUndo keeps what the command is about to delete or overwrite. What goes
// wrong is said and does not stop the recovery: the environment is broken, and a
// full disk is one way in which it is.
func keepForUndo(s undo.Store, label undo.Label, a action.Action, now time.Time) (id, note string) {
	parts := recovery.Analyse(a.Command).Parts
	words := make([][]string, 0, len(parts))
	for _, p := range parts {
		words = append(words, p.Words)
	}
	targets, err := undo.Plan(s.Repo, a.WorkingDir, words)
	if err != nil {
		return "", err.Error()
	}
	kept, err := s.Keep(context.Background(), undo.Request{Targets: targets, Caps: undo.DefaultCaps(), Time: now, Label: label})
	if err != nil {
		return "", "nothing could be kept: " + err.Error()
	}
	for i, n := range kept.NotKept {
		if i == 3 {
			note += fmt.Sprintf("; and %d more", len(kept.NotKept)-i)
			break
		}
		if note == "" {
			note = "not kept: "
		} else {
			note += "; "
		}
		note += fmt.Sprintf("%s (%s)", n.Path, n.Why)
	}
	return kept.ID, note
}

// sealUndo records what the command has left behind, and drops old sets.
func (d *driver) sealUndo(ctx context.Context, id string) {
	ctx = context.WithoutCancel(ctx)
	s := d.undoStore()
	if err := s.Seal(ctx, id); err != nil {
		d.log.Warn("superloop undo will take what the recovery changed for somebody else's", zap.Error(err))
	}
	if _, err := s.Prune(ctx, undoSets, undoAge, d.o.Now()); err != nil {
		d.log.Warn("old sets of undo stay", zap.Error(err))
	}
}
