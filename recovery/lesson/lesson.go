// Package lesson drafts an entry of the catalog from a failure and the cure that has helped: a handler that recognises
// the failure, with the cure as its option. It proves the draft before it gives it out: the handler passes the linter,
// recognises its own example and the failure itself, refuses its counter-examples, and changes the verdict on no
// example of the catalog. If no such handler can be made, it says why.
//
// A pattern must be specific, because a handler that matches too much offers the wrong cure. So a draft recognises one
// line, from its beginning to its end. Only what differs from run to run is general: numbers, versions, hashes, paths,
// hosts, and names that look made. Every other word stays as it was said.
//
// A draft grants no permission. Its commands go through the policy like all others.
package lesson

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// Failure is a command that failed, as far as it was recorded.
type Failure struct {
	Command        string
	Dir            string // where the command ran; absolute, or "" if unknown
	Exit           classify.Exit
	Stdout, Stderr string // what it printed; a record of both streams stands in Stderr
	// Excerpt says that the streams are lines of a record: without blanks at their ends, without secrets, and perhaps not
	// all.
	Excerpt bool
}

// Cure is what made the failure go away.
type Cure struct {
	Command string
	// Shown says where it was seen that the failure was gone afterwards, such as "event 12 of the loop one". It is "" if
	// only an operator says so.
	Shown string
}

// Options holds what Make needs besides the failure and its cure.
type Options struct {
	// Load returns the catalog in force, with these files as the operator's last ones.
	Load   func(more ...catalog.File) (*catalog.Catalog, catalog.Problems)
	Redact *redact.Replacer // removes known secrets
	// Category of the handler, an id or an alias. "" means the category of the rule that knows the failure, else
	// environment.
	Category string
}

// Draft is a file of the catalog with one handler, which Make has proved.
type Draft struct {
	ID       string `json:"id"`
	Category string `json:"category"`
	Line     string `json:"line"`    // the line of the output that the handler recognises, without secrets
	Pattern  string `json:"pattern"` // of that line
	Cure     string `json:"cure"`    // the command
	Before   string `json:"before"`  // the handler that took the failure before, "" if none did
	Weak     bool   `json:"weak"`    // the code may be at fault as well, so the cure is proposed at most
	Checked  int    `json:"checked"` // examples and counter-examples of the catalog whose verdict stays
	YAML     []byte `json:"-"`
}

// RefusalKind says what is missing for a draft.
type RefusalKind string

// The kinds of a Refusal.
const (
	NoPattern RefusalKind = "no_pattern" // no line of the output is specific enough
	IsCode    RefusalKind = "code"       // only a change of the code helps
	IsText    RefusalKind = "shell"      // the cure is no plain list of commands
	IsSecret  RefusalKind = "secret"     // the cure holds a secret
	Conflicts RefusalKind = "conflict"   // another rule comes first, or would change
)

// Refusal is the error of Make when no safe draft can be made.
type Refusal struct {
	Kind RefusalKind
	Why  string
}

func (r *Refusal) Error() string { return r.Why }

func refuse(kind RefusalKind, format string, args ...any) error {
	return &Refusal{kind, fmt.Sprintf(format, args...)}
}

// maxLines bounds the lines of an output for which Make tries a draft.
const maxLines = 12

// Make drafts a handler for a failure and proves it. The error is a *Refusal if there is no safe draft, or that of the
// context or of the catalog.
func Make(ctx context.Context, f Failure, c Cure, o Options) (*Draft, error) {
	steps, err := argvs(c.Command, o.Redact)
	if err != nil {
		return nil, err
	}
	cat, _ := o.Load()
	k, err := classify.New(cat, classify.Options{Redact: o.Redact})
	if err != nil {
		return nil, err
	}
	before, err := k.Classify(ctx, f.input())
	if errors.Is(err, classify.ErrNoFailure) {
		return nil, refuse(NoPattern, "the command succeeded: there is no failure to learn")
	} else if err != nil {
		return nil, err
	}
	m := &maker{Options: o, ctx: ctx, f: f, cure: c, steps: steps, cat: cat, k: k, before: before}
	if err := m.place(); err != nil {
		return nil, err
	}
	return m.first(f.candidates(o.Redact, before))
}

// maker is the state of one Make.
type maker struct {
	Options
	ctx    context.Context
	f      Failure
	cure   Cure
	steps  []step
	cat    *catalog.Catalog     // in force
	k      *classify.Classifier // of cat
	before classify.Failure     // the verdict of k

	layer    catalog.Layer // where the handler is to stand
	family   string
	priority int
	category string
}

// place decides where the handler stands: where the rule stands that takes the failure now, and before it.
func (m *maker) place() error {
	m.layer, m.category = catalog.LayerInfra, "environment"
	h, known := m.cat.Handler(m.before.Handler)
	switch {
	case known && m.before.Code:
		return refuse(IsCode, "only a change of the code fixes this failure: %s", m.before.Why)
	case m.before.Code && m.cure.Shown == "" && slices.ContainsFunc(m.before.Evidence, placed):
		return refuse(IsCode, "the failure points into the code, and nothing recorded shows that a command fixes it: %s", m.before.Why)
	case known && h.Layer == catalog.LayerRecipe:
		return refuse(Conflicts, "the recipe %s knows this failure (%s): its on_failure in a file of yours is the place for another cure", h.Family, h.ID)
	case known && h.Dominates:
		return refuse(Conflicts, "%s knows this failure and comes before all other rules; extend it in a file of yours", h.ID)
	case known:
		m.layer, m.family, m.priority, m.category = h.Layer, h.Family, h.Priority+1, h.Category
	}
	if m.Category != "" {
		c, ok := m.cat.Category(m.Category)
		if !ok {
			return refuse(Conflicts, "there is no category %q; superloop classify --list names them", m.Category)
		}
		m.category = c.ID
	}
	if c, ok := m.cat.Category(m.category); ok && c.Area == "code" {
		return refuse(IsCode, "failures of the category %s are fixed by a change of the code", c.ID)
	}
	return nil
}

// placed reports whether a line names a place in the code. The classifier also takes the port of a host for one.
func placed(e classify.Evidence) bool { return e.File != "" && !address().MatchString(e.File) }

// first returns the first draft that can be proved. Lines that are more likely to name the cause come first.
func (m *maker) first(lines []line) (*Draft, error) {
	var last error
	for _, l := range lines[:min(len(lines), maxLines)] {
		for _, keep := range []bool{false, true} {
			p, ok := generalise(l, m.steps, keep)
			if !ok {
				continue
			}
			d, err := m.prove(l, p)
			if err == nil || m.ctx.Err() != nil {
				return d, err
			}
			last = cmp.Or(last, err)
		}
	}
	if last != nil {
		return nil, last
	}
	what := "it printed nothing"
	if quoted := m.f.lastLine(m.Redact); quoted != "" {
		what = fmt.Sprintf("the last one is %q", quoted)
	}
	if m.before.Handler != "" {
		what += "; " + m.before.Handler + " knows this failure"
	}
	return nil, refuse(NoPattern, "no line of the output names the cause in words of its own: %s", what)
}

func (f Failure) input() classify.Input {
	return classify.Input{Source: classify.SourceCommand, Command: f.Command, Exit: f.Exit,
		Stdout: strings.NewReader(f.Stdout), Stderr: strings.NewReader(f.Stderr)}
}
