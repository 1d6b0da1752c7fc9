package api

import (
	"context"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/plan/walk"
)

// Question is what a loop asks a person, with all that a page needs to show it.
type Question struct {
	ID       string        `json:"id"`
	Digest   string        `json:"digest" doc:"binds an answer to what was shown"`
	LoopID   string        `json:"loop_id" doc:"the id of its loop in this API"`
	Machine  string        `json:"machine,omitempty" doc:"the id of its machine; missing: there is one machine only"`
	AsOf     *time.Time    `json:"as_of,omitempty" doc:"its machine is away, and this is what was known then; missing: it is so now"`
	State    string        `json:"state" enum:"pending,approved,executing,done,failed,interrupted,rejected,resolved,expired,superseded"`
	Created  time.Time     `json:"created_at"`
	Expires  time.Time     `json:"expires_at"`
	Answered *time.Time    `json:"answered_at,omitempty"`
	By       string        `json:"by,omitempty" doc:"who answered, and how that is known"`
	View     Event         `json:"question" doc:"escalation.json, as docs/escalation.md describes it"`
	OK       bool          `json:"ok" doc:"its command ran, and succeeded"`
	ExitCode *int          `json:"exit_code" doc:"of the command that failed; null: none did, or it is not known"`
	Stderr   string        `json:"stderr" doc:"the end of what that command printed"`
	Failure  *Failure      `json:"failure,omitempty" doc:"missing: nothing failed, or rules know nothing of it"`
	Options  []Way         `json:"options" nullable:"false" doc:"the recommended one first, then those that are ready, locked and impossible"`
	Chain    *Says[Object] `json:"chain,omitempty" doc:"the remediation plan, as GET …/plan answers: breadcrumbs, levels, errors. Missing: there is none"`
	Title    string        `json:"title" doc:"the question in a sentence"`
	Asks     *Asked        `json:"command,omitempty" doc:"what would run; missing: the question is not about a command"`
	Ways     []TypedWay    `json:"ways" nullable:"false" doc:"what can be typed in place of an answer by this API, the best first"`
	Fallback []Fallback    `json:"fallback_actions" nullable:"false" doc:"what is always possible while the question waits"`
}

// Failure is what rules say about the command that failed.
type Failure struct {
	ID          string  `json:"failure_id" doc:"the rule that knows it; empty: none does"`
	Category    string  `json:"category"`
	Label       string  `json:"label"`
	Description string  `json:"description,omitempty"`
	Layer       string  `json:"matched_layer,omitempty"`
	Method      string  `json:"matched_method,omitempty"`
	Signature   string  `json:"signature,omitempty"`
	Confidence  float64 `json:"confidence,omitempty"`
}

// Way is one way to go on.
type Way struct {
	plan.Shown
	Answer string `json:"answer,omitempty" enum:"approve,choose" doc:"the method that picks it; missing: no answer does"`
}

// Fallback is an action that needs no option.
type Fallback struct {
	ID     string `json:"id" enum:"retry,skip,cancel"`
	Label  string `json:"label"`
	Method string `json:"method,omitempty" enum:"manual,reject" doc:"of an answer; missing: POST …/loops/{id}/cancel"`
}

// show returns the question as the API answers it.
func (q asked) show() (*body[Question], error) {
	r := q.rec
	data, err := escalation.View(r)
	if err != nil {
		return nil, problem(http.StatusConflict, "unusable", "%v", err)
	}
	out := Question{ID: r.Question.ID, Digest: r.Digest, LoopID: q.e.ID(), Machine: q.e.Machine(), State: string(r.State), Created: r.Question.Created, Expires: r.Question.Expires, View: data,
		Title: escalation.Title(r.Question), Asks: askedOf(r.Question), Ways: waysOf(r), OK: r.State == escalation.Done, Options: []Way{}, Fallback: []Fallback{}}
	if r.Answer != nil {
		out.Answered, out.By = timeOf(r.Answer.At), r.Answer.By.String()
	}
	if r.State == escalation.Pending {
		out.Fallback = []Fallback{{"retry", "The cause is mended: look again", "manual"}, {"skip", "Go on without it", "reject"}, {"cancel", "End the loop", ""}}
	}
	v, err := local.ReadView(q.p)
	if err != nil || v.Human == nil || v.Human.Question != r.Question.ID {
		v = loop.View{} // what the loop knows now is not about this question
	}
	if d := v.Diagnosis; d != nil {
		out.Failure = &Failure{ID: d.Handler, Category: d.Category, Label: d.Why, Signature: d.Signature, Confidence: d.Confidence}
		out.offer(r, plan.Show(d.Options))
	}
	if c, ok := q.chain(v); ok {
		if err := out.take(c, r); err != nil {
			return nil, problem(http.StatusConflict, "unusable", "%v", err)
		}
	}
	for _, o := range r.Question.Options {
		if !slices.ContainsFunc(out.Options, func(w Way) bool { return w.ID == o.ID }) {
			out.offer(r, []plan.Shown{{ID: o.ID, Label: o.Label, Availability: "ready", Command: o.Command}})
		}
	}
	slices.SortStableFunc(out.Options, func(x, y Way) int { return x.rank() - y.rank() })
	return &body[Question]{out}, nil
}

// chain returns the remediation plan that a question is about: the one that the loop carries out, or the last one of the
// same run and iteration, which has ended.
func (q asked) chain(v loop.View) (plan.Chain, bool) {
	if v.Recovery != nil && v.Recovery.Plan != nil {
		return *v.Recovery.Plan, true
	}
	if v.Human == nil {
		return plan.Chain{}, false
	}
	all, _ := walk.Store{Dir: q.p.File("chains")}.List() // one that cannot be read is none
	if len(all) == 0 {
		return plan.Chain{}, false
	}
	last := all[len(all)-1]
	return last.Chain, last.Err == nil && last.Chain.Status != plan.Done && !last.Chain.CreatedAt.Before(v.StartedAt) && v.Diagnosis != nil && last.Chain.Goal.Command == v.Diagnosis.Command
}

// take takes what a chain knows into the answer.
func (out *Question) take(c plan.Chain, r escalation.Record) error {
	data, err := plan.Response(c)
	if err != nil {
		return err
	}
	var is struct {
		ExitCode int          `json:"exit_code"`
		Stderr   string       `json:"stderr"`
		Failure  Failure      `json:"failure"`
		Options  []plan.Shown `json:"options"`
		More     []plan.Shown `json:"more"`
	}
	if err := text.Decode(data, &is); err != nil {
		return err
	}
	says := Says[Object](data)
	out.Chain, out.ExitCode, out.Stderr, out.Failure = &says, &is.ExitCode, is.Stderr, &is.Failure
	out.Options = []Way{}
	out.offer(r, is.Options)
	out.offer(r, is.More)
	return nil
}

// offer adds options, and says which answer picks each.
func (out *Question) offer(r escalation.Record, options []plan.Shown) {
	for _, o := range options {
		w := Way{Shown: o}
		c := r.Question.Command
		switch {
		case r.State != escalation.Pending || o.Command == "":
		case c != nil && string(c.Text) == o.Command:
			w.Answer = "approve"
		case slices.ContainsFunc(r.Question.Options, func(x escalation.Option) bool { return x.ID == o.ID && x.Command == o.Command }):
			w.Answer = "choose"
		}
		out.Options = append(out.Options, w)
	}
}

// rank orders options as a page shows them.
func (w Way) rank() int {
	if w.Recommended {
		return 0
	}
	return 1 + strings.Index("ready locked impossible", w.Availability)
}

// Asked is a command that waits for a person, with what is known of it.
type Asked struct {
	Text       string            `json:"text" doc:"the command; bytes that are not UTF-8 are replaced, display shows them"`
	Display    string            `json:"display" doc:"on one line of printable ASCII, each other character by its number; no two commands have the same"`
	Bytes      int               `json:"bytes"`
	Exact      bool              `json:"exact" doc:"text is the command, byte for byte"`
	SHA256     string            `json:"sha256"`
	Dir        string            `json:"dir" doc:"the directory, absolute"`
	TimeoutMS  int64             `json:"timeout_ms"`
	Network    string            `json:"network,omitempty" doc:"full or none"`
	Source     string            `json:"source" doc:"who proposes it: tester, superloop or human"`
	Role       string            `json:"role,omitempty"`
	Category   string            `json:"category,omitempty"`
	Severity   string            `json:"severity,omitempty"`
	Confidence string            `json:"confidence,omitempty"`
	RootCause  string            `json:"root_cause,omitempty"`
	Expected   string            `json:"expected_outcome,omitempty"`
	Pattern    string            `json:"error_pattern,omitempty"`
	Evidence   []string          `json:"evidence" nullable:"false"`
	Hits       []escalation.Hit  `json:"hits" nullable:"false" doc:"the patterns of require_human that fit it"`
	Near       *escalation.Near  `json:"nearest,omitempty" doc:"the entry of auto_approve that is most similar"`
	GuardDiff  string            `json:"inputs_diff,omitempty" doc:"how what it reads differs from what was trusted"`
	Analysis   recovery.Analysis `json:"analysis" doc:"how superloop reads it, as policy check does"`
}

// TypedWay is a way to go on by a command line.
type TypedWay struct {
	Does string `json:"does"`
	Line string `json:"line"`
}

func askedOf(q escalation.Question) *Asked {
	c := q.Command
	if c == nil {
		return nil
	}
	dir := c.WorkingDir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(q.Repo, dir)
	}
	s := string(c.Text)
	a := Asked{Text: s, Display: text.Display(s), Bytes: len(s), Exact: utf8.ValidString(s), SHA256: c.SHA256, Dir: dir, TimeoutMS: c.TimeoutMS, Network: c.Network,
		Source: c.Source, Role: c.Role, Category: c.Category, Severity: c.Severity, Confidence: c.Confidence, RootCause: c.RootCause, Expected: c.ExpectedOutcome,
		Pattern: c.ErrorPattern, Evidence: append([]string{}, c.Evidence...), Hits: append([]escalation.Hit{}, c.Hits...), Near: c.Near, GuardDiff: c.GuardDiff, Analysis: *recovery.Analyse(s)}
	return &a
}

func waysOf(r escalation.Record) []TypedWay {
	out := []TypedWay{}
	if r.State != escalation.Pending {
		return out
	}
	for _, w := range r.Ways() {
		out = append(out, TypedWay{w.Does, w.Line})
	}
	return out
}

// Chains are the remediation plans of superloop fix, or of a loop.
type Chains struct {
	Repos      []RepoChains `json:"repos" nullable:"false"`
	NextCursor string       `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

// RepoChains are the chains of a repository.
type RepoChains struct {
	Machine string        `json:"machine,omitempty" doc:"the id of its machine; missing: there is one machine only"`
	Repo    string        `json:"repo"`
	Says    *Says[Object] `json:"known,omitempty" doc:"what superloop chain list --json prints"`
	Error   string        `json:"error,omitempty" doc:"why they are not known"`
}

func (a *api) chains(ctx context.Context, in *reposIn) (*body[Chains], error) {
	list, next := cut(a.knownOn(in.Machine), in.Page, func(r Repo) string { return r.Repo })
	out := Chains{Repos: []RepoChains{}, NextCursor: next}
	for _, r := range list {
		one := RepoChains{Repo: r.Repo, Machine: r.Machine}
		one.Says, one.Error = saysOf[Object](ctx, a, "chain", "list", "--repo="+r.Repo, "--json")
		out.Repos = append(out.Repos, one)
	}
	return &body[Chains]{out}, nil
}

func (a *api) chain(ctx context.Context, in *struct {
	CID  string `path:"cid" maxLength:"100" doc:"the id of a chain"`
	Repo string `query:"repo" required:"true" doc:"its repository"`
	OnMachine
}) (*body[Says[Object]], error) {
	repo, err := a.repo(InRepo{in.Repo, in.Machine})
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(in.CID, "-") {
		return nil, problem(http.StatusNotFound, "not-found", "there is no chain %q", in.CID)
	}
	return say[Object](ctx, a, VerbCall{Args: []string{"chain", "show", "--repo=" + repo, "--json", in.CID}})
}
