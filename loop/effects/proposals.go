package effects

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/schemas"
)

// Lies reports whether a recovery.json lies in the loop's directory, in a loop that allows recovery.
func (r *Recoveries) Lies(s loop.State) bool {
	if !s.Plan.Recovery {
		return false
	}
	_, err := os.Lstat(r.Paths.File(recovery.ProposalFile))
	return err == nil
}

// Sweep runs before a role starts. It removes the private copies of proposals that superloop has dealt with. Before the
// first role of an iteration it also archives an older proposal as stale. It returns the state that follows.
func (r *Recoveries) Sweep(e loop.Effect, s loop.State) (loop.State, error) {
	if !s.Plan.Recovery {
		return s, nil
	}
	left, err := r.takenFiles()
	if err != nil {
		return s, err
	}
	for _, path := range left {
		if err := r.Disk.Remove("proposal", path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, r.Full(err)
		}
	}
	first := len(s.Plan.Roles) > 0 && e.Role == s.Plan.Roles[0] && e.Attempt == 1
	if !first || !r.Lies(s) {
		return s, nil
	}
	t, err := recovery.Take(r.Disk, r.Paths.Loop, r.Paths.Private)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, r.Full(err)
	}
	f := loop.ProposalStale{Rule: loop.RuleStale, Digest: t.Digest,
		Reason: fmt.Sprintf("it lay there before iteration %d began, so it is about an older state of things", s.Iteration)}
	if p, problems := recovery.DecodeProposal(t.Data, 0); len(problems) == 0 {
		f.Command = p.Recovery.Command
	}
	f.File, err = r.archive(s, t, "stale", f.Reason, nil)
	if err != nil {
		return s, err
	}
	return r.Journal.Fact(f)
}

func (r *Recoveries) takenFiles() ([]string, error) {
	entries, err := os.ReadDir(r.Paths.Private)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if n := e.Name(); e.Type().IsRegular() && strings.HasPrefix(n, "recovery-") && strings.HasSuffix(n, ".json") {
			out = append(out, filepath.Join(r.Paths.Private, n))
		}
	}
	return out, nil
}

// found takes the proposal from the loop's directory. If there is none, it returns the one private copy that a killed
// supervisor had taken.
func (r *Recoveries) found() (recovery.Taken, error) {
	t, err := recovery.Take(r.Disk, r.Paths.Loop, r.Paths.Private)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	left, lerr := r.takenFiles()
	if lerr != nil || len(left) != 1 {
		return t, errors.Join(lerr, err)
	}
	data, rerr := door.Read(left[0], int64(schemas.Recovery.Limit()))
	if rerr != nil { // it is not what superloop wrote there
		return t, fmt.Errorf("%w: %w", fs.ErrNotExist, rerr)
	}
	return recovery.Taken{Data: data, Digest: sha(data), Path: left[0]}, nil
}

func (r *Recoveries) take(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	t, err := r.found()
	if errors.Is(err, fs.ErrNotExist) {
		return loop.ProposalStale{Of: loop.To(e), Role: e.Role, Rule: loop.RuleStale, Reason: "it was gone when it was to be read"}, nil
	}
	if err != nil {
		return nil, r.Full(err)
	}
	if t.Digest != "" && slices.Contains(s.Recoveries.Handled, t.Digest) {
		f := loop.ProposalStale{Of: loop.To(e), Role: e.Role, Rule: loop.RuleStale, Digest: t.Digest, Reason: "the same file was dealt with in this iteration already"}
		f.File, err = r.archive(s, t, "stale", f.Reason, nil)
		return f, err
	}
	problems := t.Problems
	var p *recovery.Proposal
	if t.Data != nil {
		p, problems = recovery.DecodeProposal(t.Data, r.Policies.InForce()[0].Settings.MaxTimeout())
	}
	if len(problems) > 0 {
		t.Problems = problems
		return r.invalid(s, t, loop.ProposalInvalid{Of: loop.To(e), Role: e.Role, Problems: ProblemsOf(problems), Digest: t.Digest, Reason: "it is not a valid proposal"})
	}
	if rule, reason := needless(s, p); rule != "" {
		f := loop.ProposalSkipped{Of: loop.To(e), Role: e.Role, Rule: rule, Reason: reason, Command: p.Recovery.Command,
			Category: p.Category, Severity: p.Severity, Confidence: p.Recovery.Confidence, Digest: t.Digest}
		f.File, err = r.archive(s, t, "skipped", reason, nil)
		return f, err
	}
	j, err := r.judge(ctx, s, p.Recovery)
	if err != nil {
		return nil, err
	}
	if j.Decision == action.Auto && slices.Contains(s.Recoveries.Ran, p.Recovery.Digest) {
		j.Decision, j.Rule, j.Reason = action.Human, loop.RuleRan, loop.ReasonRan
	}
	if j.Decision == action.Invalid {
		at := "/recovery/command"
		if j.Rule == recovery.RuleWorkingDir {
			at = "/recovery/working_dir"
		}
		return r.invalid(s, t, loop.ProposalInvalid{Of: loop.To(e), Role: e.Role, Digest: t.Digest, Command: p.Recovery.Command, Rule: j.Rule, Reason: j.Reason, PolicyDigest: j.PolicyDigest, Facts: j.Facts,
			Problems: []loop.Problem{{Pointer: at, Code: j.Rule, Message: j.Reason}}})
	}
	secrets := agent.Secrets(r.Env(), nil)
	f := loop.Proposed{Of: loop.To(e), N: s.Recoveries.Proposed + 1, Source: cmp.Or(e.Role, loop.SourceSuperloop), Role: e.Role, Digest: t.Digest, ProposedAt: p.Timestamp, Category: p.Category,
		Severity: p.Severity, RootCause: secrets.String(p.Diagnosis.RootCause), Pattern: p.Diagnosis.ErrorPattern,
		Evidence: loop.Map(p.Diagnosis.Evidence, secrets.String), Action: p.Recovery, Else: p.Fallback, Notes: p.Notes}
	f.PatternSeen = r.PatternSeen(f.Pattern)
	setVerdict(&f, j)
	if f.File, err = r.archive(s, t, f.Verdict, f.Reason, &j); err != nil {
		return nil, err
	}
	return f, nil
}

// needless returns the rule and the reason for which a proposal is not judged, or two empty strings.
func needless(s loop.State, p *recovery.Proposal) (rule, reason string) {
	d := s.Recoveries.Done
	switch {
	case recovery.AlreadyDone(d, p.Recovery):
		return loop.RuleDone, recovery.DoneReason(*d)
	case s.Gates.Tests == "ok" && slices.Contains(s.Recoveries.Ran, p.Recovery.Digest):
		return loop.RuleDone, "superloop has run this very command in this iteration, and the tests pass since"
	case s.NothingFailed():
		return loop.RuleNothingFailed, "the tests pass and nothing has failed, so there is nothing to repair"
	}
	return "", ""
}

func setVerdict(f *loop.Proposed, j execute.Judgement) {
	f.Verdict, f.Rule, f.Reason, f.Part = string(j.Decision), j.Rule, j.Reason, text.Display(j.Part)
	if j.Part == "" {
		f.Part = ""
	}
	f.NotBefore, f.PolicyDigest, f.InputsDigest, f.Facts = j.NotBefore, j.PolicyDigest, j.Inputs, j.Facts
}

func (r *Recoveries) invalid(s loop.State, t recovery.Taken, f loop.ProposalInvalid) (loop.Fact, error) {
	var err error
	f.File, err = r.archive(s, t, string(action.Invalid), f.Reason, nil)
	return f, err
}

// archived is the content of proposals/<n>-<digest>.json: the proposal and the verdict on it. Operators read this file;
// superloop never reads it back.
type archived struct {
	N         int             `json:"n"`
	TakenAt   time.Time       `json:"taken_at"`
	RunID     string          `json:"run_id"`
	Iteration int             `json:"iteration"`
	Digest    string          `json:"digest,omitempty"`
	Verdict   string          `json:"verdict"`
	Reason    string          `json:"reason"`
	Decision  any             `json:"decision,omitempty"`
	Changes   string          `json:"changed_inputs,omitempty"`
	Problems  any             `json:"problems,omitempty"`
	Proposal  json.RawMessage `json:"proposal,omitempty"` // if it is valid JSON, not nested too deep; else Text or Base64 holds it
	Text      string          `json:"text,omitempty"`
	Base64    string          `json:"base64,omitempty"`
}

// archive writes a proposal to the proposals directory and returns the file's path in the form that events have.
func (r *Recoveries) archive(s loop.State, t recovery.Taken, verdict, reason string, j *execute.Judgement) (string, error) {
	a := archived{N: s.Recoveries.Proposed + 1, TakenAt: r.Now(s), RunID: s.RunID, Iteration: s.Iteration,
		Digest: t.Digest, Verdict: verdict, Reason: reason}
	if j != nil {
		a.Decision, a.Changes = j.Verdict, j.Diff
	}
	if len(t.Problems) > 0 {
		a.Problems = t.Problems
	}
	switch {
	case door.Shallow(t.Data) && json.Valid(t.Data):
		a.Proposal = t.Data
	case utf8.Valid(t.Data):
		a.Text = string(t.Data)
	default:
		a.Base64 = base64.StdEncoding.EncodeToString(t.Data)
	}
	data, err := loop.EncodeIndent(a, "  ")
	if err != nil {
		return "", fmt.Errorf("keeping the proposal: %w", err)
	}
	name := "unreadable-" + a.TakenAt.Format("20060102T150405.000Z") // without a digest, the time makes the name unique
	if len(t.Digest) >= 12 {
		name = t.Digest[:12]
	}
	path := filepath.Join(r.Paths.Proposals(), fmt.Sprintf("%d-%s.json", a.N, name))
	if err := r.Dir("proposals", r.Paths.Proposals()); err != nil {
		return "", err
	}
	if err := r.Disk.WriteProjection("proposals", path, append(data, '\n'), 0o644); err != nil {
		return "", r.Full(err)
	}
	return r.Paths.Rel(path), nil
}

// Sight reads a proposal while its role still runs, so that operators see it at once. It returns nil if there is no
// proposal, or if Sight has reported it before. superloop decides nothing by this fact.
func (r *Recoveries) Sight(ctx context.Context, s loop.State) loop.Fact {
	p := s.Pending
	if p == nil || p.Kind != loop.RunRole || !s.Begun || !s.Plan.Recovery {
		return nil
	}
	data, err := recovery.ReadProposal(r.Paths.Loop)
	seen := fmt.Sprint(p.ID, " ", sha(data)) // the same bytes in another attempt are another proposal
	if err != nil || r.sighted == seen || !door.Shallow(data) || !json.Valid(data) {
		return nil // a file that is not valid JSON is most often still being written
	}
	f := loop.Seen{Sighting: loop.Sighting{Role: p.Role, Verdict: string(action.Invalid)}, Digest: sha(data)}
	prop, problems := recovery.DecodeProposal(data, r.Policies.InForce()[0].Settings.MaxTimeout())
	if len(problems) > 0 {
		f.Reason = problems[0].String()
	} else {
		j, err := r.Executor.Judge(ctx, prop.Recovery, budget(s, prop.Recovery))
		if err != nil {
			r.Log.Warn("a proposal that was seen cannot be judged yet", zap.Error(err))
			return nil
		}
		f.Category, f.Command, f.Verdict, f.Reason = prop.Category, prop.Recovery.Command, string(j.Decision), j.Reason
	}
	r.sighted = seen
	return f
}

// ProblemsOf converts problems to the form that events have.
func ProblemsOf(in []schemas.Problem) []loop.Problem {
	return loop.Map(in, func(p schemas.Problem) loop.Problem { return loop.Problem(p) })
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
