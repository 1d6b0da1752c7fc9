package local

import (
	"context"
	"encoding/base64"
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

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// proposalLies reports whether there is a recovery.json to take.
func (d *driver) proposalLies() bool {
	if !d.state.Plan.Recovery {
		return false
	}
	_, err := os.Lstat(d.paths.File(recovery.ProposalFile))
	return err == nil
}

// sweepProposals sets aside, before a role starts, what must not be taken for
// its proposal: private copies of those that were dealt with, and, before the
// first role of an iteration, a proposal that an earlier one has left.
func (d *driver) sweepProposals(e loop.Effect) error {
	if !d.state.Plan.Recovery {
		return nil
	}
	left, err := d.takenFiles()
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := d.o.Disk.Remove("proposal", path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.host.Full(err)
		}
	}
	first := len(d.state.Plan.Roles) > 0 && e.Role == d.state.Plan.Roles[0] && e.Attempt == 1
	if !first || !d.proposalLies() {
		return nil
	}
	t, err := recovery.Take(d.o.Disk, d.paths.Loop, d.paths.Private)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.host.Full(err)
	}
	f := loop.ProposalStale{Rule: loop.RuleStale, Digest: t.Digest,
		Reason: fmt.Sprintf("it lay there before iteration %d began, so it is about an older state of things", d.state.Iteration)}
	if p, problems := recovery.DecodeProposal(t.Data, 0); len(problems) == 0 {
		f.Command = p.Recovery.Command
	}
	f.File, err = d.archiveProposal(t, "stale", f.Reason, nil)
	if err != nil {
		return err
	}
	return d.step(f)
}

// takenFiles are the private copies of proposals.
func (d *driver) takenFiles() ([]string, error) {
	entries, err := os.ReadDir(d.paths.Private)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if n := e.Name(); strings.HasPrefix(n, "recovery-") && strings.HasSuffix(n, ".json") {
			out = append(out, filepath.Join(d.paths.Private, n))
		}
	}
	return out, nil
}

// take gets the proposal, or the one that a killed supervisor had taken.
func (d *driver) take() (recovery.Taken, error) {
	t, err := recovery.Take(d.o.Disk, d.paths.Loop, d.paths.Private)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	left, lerr := d.takenFiles()
	if lerr != nil || len(left) != 1 {
		return t, errors.Join(lerr, err)
	}
	data, rerr := os.ReadFile(left[0])
	if rerr != nil {
		return t, rerr
	}
	return recovery.Taken{Data: data, Digest: sha(data), Path: left[0]}, nil
}

// takeProposal takes what the role left, and judges it.
func (d *driver) takeProposal(ctx context.Context, e loop.Effect) (loop.Fact, error) {
	t, err := d.take()
	if errors.Is(err, fs.ErrNotExist) {
		return loop.ProposalStale{Of: loop.To(e), Role: e.Role, Rule: loop.RuleStale, Reason: "it was gone when it was to be read"}, nil
	}
	if err != nil {
		return nil, d.host.Full(err)
	}
	for _, done := range d.state.Recoveries.Handled {
		if t.Digest != "" && done == t.Digest {
			f := loop.ProposalStale{Of: loop.To(e), Role: e.Role, Rule: loop.RuleStale, Digest: t.Digest, Reason: "the same file was dealt with in this iteration already"}
			f.File, err = d.archiveProposal(t, "stale", f.Reason, nil)
			return f, err
		}
	}
	problems := t.Problems
	var p *recovery.Proposal
	if t.Data != nil {
		p, problems = recovery.DecodeProposal(t.Data, d.rules()[0].Settings.MaxTimeout())
	}
	if len(problems) > 0 {
		return d.invalidProposal(t, loop.ProposalInvalid{Of: loop.To(e), Role: e.Role, Problems: problemsOf(problems), Digest: t.Digest, Reason: "it is not a valid proposal"})
	}
	j, err := d.judge(ctx, p.Recovery)
	if err != nil {
		return nil, err
	}
	if j.Decision == action.Auto && slices.Contains(d.state.Recoveries.Ran, p.Recovery.Digest) {
		j.Decision, j.Rule = action.Human, loop.RuleRan
		j.Reason = "superloop has run this very command in this iteration, and the tests fail all the same"
	}
	if j.Decision == action.Invalid {
		at := "/recovery/command"
		if j.Rule == recovery.RuleWorkingDir {
			at = "/recovery/working_dir"
		}
		return d.invalidProposal(t, loop.ProposalInvalid{Of: loop.To(e), Role: e.Role, Digest: t.Digest, Command: p.Recovery.Command, Rule: j.Rule, Reason: j.Reason,
			Problems: []loop.Problem{{Pointer: at, Code: j.Rule, Message: j.Reason}}})
	}
	f := loop.Proposed{Of: d.to(), N: d.state.Recoveries.Proposed + 1, Source: source(e.Role), Role: e.Role, Digest: t.Digest, Category: p.Category,
		Severity: p.Severity, RootCause: p.Diagnosis.RootCause, Pattern: p.Diagnosis.ErrorPattern,
		Evidence: p.Diagnosis.Evidence, Action: p.Recovery, Else: p.Fallback, Notes: p.Notes}
	f.PatternSeen = d.patternSeen(f.Pattern)
	setVerdict(&f, j)
	if f.File, err = d.archiveProposal(t, f.Verdict, f.Reason, &j); err != nil {
		return nil, err
	}
	return f, nil
}

// source names who proposes.
func source(role string) string {
	if role == "" {
		return loop.SourceSuperloop
	}
	return role // "tester" is the one who is asked to
}

// setVerdict copies a verdict into the fact.
func setVerdict(f *loop.Proposed, j judged) {
	f.Verdict, f.Rule, f.Reason, f.Part = string(j.Decision), j.Rule, j.Reason, text.Display(j.Part)
	if j.Part == "" {
		f.Part = ""
	}
	f.NotBefore, f.PolicyDigest, f.InputsDigest = j.NotBefore, j.PolicyDigest, j.inputs
}

func (d *driver) invalidProposal(t recovery.Taken, f loop.ProposalInvalid) (loop.Fact, error) {
	// Where the problem stands in the file, where it is known.
	var err error
	f.File, err = d.archiveProposal(t, string(action.Invalid), f.Reason, nil)
	return f, err
}

// judgeAttempt judges the fallback, or the attempt whose time has come.
func (d *driver) judgeAttempt(ctx context.Context, e loop.Effect) (loop.Fact, error) {
	r := d.state.Recovery
	if r == nil {
		return nil, errors.New("there is no recovery to judge")
	}
	a, fallback := r.Attempt, r.Fallback
	if e.Reason == "fallback" && r.Else != nil {
		a, fallback = *r.Else, true
	}
	return d.judgeAnew(ctx, a, fallback)
}

func (d *driver) judgeAnew(ctx context.Context, a action.Action, fallback bool) (loop.Fact, error) {
	r := d.state.Recovery
	j, err := d.judge(ctx, a)
	if err != nil {
		return nil, err
	}
	f := loop.Proposed{Of: d.to(), N: r.N, Source: r.Source, Role: r.Role, Digest: r.Digest, File: r.File, Category: r.Category, Severity: r.Severity,
		RootCause: r.RootCause, Pattern: r.Pattern, Action: a, Fallback: fallback}
	setVerdict(&f, j)
	return f, nil
}

// archived is proposals/<n>-<digest>.json: what was proposed and what was said to
// it. It is for people; nothing reads it back.
type archived struct {
	N         int       `json:"n"`
	TakenAt   time.Time `json:"taken_at"`
	RunID     string    `json:"run_id"`
	Iteration int       `json:"iteration"`
	Digest    string    `json:"digest,omitempty"`
	Verdict   string    `json:"verdict"`
	Reason    string    `json:"reason"`
	Decision  any       `json:"decision,omitempty"`
	Changes   string    `json:"changed_inputs,omitempty"`
	Problems  any       `json:"problems,omitempty"`
	// The file: as JSON if it is, else its bytes.
	Proposal json.RawMessage `json:"proposal,omitempty"`
	Text     string          `json:"text,omitempty"`
	Base64   string          `json:"base64,omitempty"`
}

// archiveProposal keeps a proposal where people find it and returns its path as
// events name it.
func (d *driver) archiveProposal(t recovery.Taken, verdict, reason string, j *judged) (string, error) {
	a := archived{N: d.state.Recoveries.Proposed + 1, TakenAt: d.host.Now(d.state), RunID: d.state.RunID, Iteration: d.state.Iteration,
		Digest: t.Digest, Verdict: verdict, Reason: reason}
	if j != nil {
		a.Decision, a.Changes = j.Verdict, j.diff
	}
	if len(t.Problems) > 0 {
		a.Problems = t.Problems
	}
	switch {
	case json.Valid(t.Data):
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
	name := "unreadable-" + a.TakenAt.Format("20060102T150405.000Z") // no digest tells it from the next one
	if len(t.Digest) >= 12 {
		name = t.Digest[:12]
	}
	path := filepath.Join(d.paths.Proposals(), fmt.Sprintf("%d-%s.json", a.N, name))
	if err := d.host.Dir("proposals", d.paths.Proposals()); err != nil {
		return "", err
	}
	if err := d.o.Disk.WriteProjection("proposals", path, append(data, '\n'), 0o644); err != nil {
		return "", d.host.Full(err)
	}
	return d.paths.Rel(path), nil
}

// sight looks at a proposal that lies there while its role still runs, so that
// people see it at once. Nothing is decided by it.
func (d *driver) sight(ctx context.Context) {
	p := d.state.Pending
	if p == nil || p.Kind != loop.RunRole || !d.state.Begun || !d.state.Plan.Recovery {
		return
	}
	data, err := recovery.ReadProposal(d.paths.Loop)
	if err != nil || d.sighted == sha(data) || !json.Valid(data) {
		return // what is not whole is most often being written
	}
	d.sighted = sha(data)
	f := loop.Seen{Role: p.Role, Verdict: string(action.Invalid), Digest: d.sighted}
	prop, problems := recovery.DecodeProposal(data, d.rules()[0].Settings.MaxTimeout())
	switch {
	case len(problems) > 0:
		f.Reason = problems[0].String()
	default:
		j, err := d.judge(ctx, prop.Recovery)
		if err != nil {
			d.log.Warn("a proposal that was seen cannot be judged yet", zap.Error(err))
			return
		}
		f.Category, f.Command, f.Verdict, f.Reason = prop.Category, prop.Recovery.Command, string(j.Decision), j.Reason
	}
	if err := d.step(f); err != nil {
		d.log.Warn("a proposal was seen and could not be recorded yet", zap.Error(err))
	}
}
