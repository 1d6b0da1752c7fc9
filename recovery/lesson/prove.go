package lesson

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/multiscan"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// draftFile is the name under which a draft is read before it is a file.
const draftFile = "draft.yaml"

// prove makes the draft of a line and proves it. The error is a *Refusal if the draft does not hold.
func (m *maker) prove(l line, p recognised) (*Draft, error) {
	h := m.handler(l, p)
	body, err := m.render(h, l)
	if err != nil {
		return nil, err
	}
	cat, problems := m.Load(catalog.File{Name: draftFile, Data: body})
	for _, w := range problems {
		if w.File == draftFile {
			return nil, refuse(NoPattern, "the draft for the line %q is not sound: %s", text.Cut(l.text, 100), w.Message)
		}
	}
	_, slow, err := multiscan.Compile([]string{"(?i)" + p.expr}, multiscan.Options{})
	if err != nil || len(slow) > 0 {
		return nil, refuse(NoPattern, "the line %q is no safe sign of the failure: %s", text.Cut(l.text, 100), slow[0].Text)
	}
	k, err := classify.New(cat, classify.Options{Redact: m.Redact})
	if err != nil {
		return nil, err
	}
	own, ok := cat.Handler(h.ID)
	if !ok {
		return nil, refuse(Conflicts, "the draft %s is not in the catalog that it was read into", h.ID)
	}
	for _, w := range k.LintHandler(own) {
		return nil, refuse(Conflicts, "a rule for the line %q would not do: %s", text.Cut(l.text, 100), w.Text)
	}
	now, err := k.Classify(m.ctx, m.f.input())
	switch {
	case err != nil:
		return nil, err
	case now.Handler != h.ID || now.Code:
		return nil, refuse(Conflicts, "a rule for the line %q would not decide: %s", text.Cut(l.text, 100), now.Why)
	}
	changed, checked, err := m.changes(k, p.expr)
	if err != nil {
		return nil, err
	}
	if changed != nil {
		why := fmt.Sprintf("a rule for the line %q would take failures of %s, which superloop knows", text.Cut(l.text, 100), changed.ID)
		if o := changed.Origin; o.Source != catalog.SourceEmbedded {
			why += fmt.Sprintf(": give it the cure as a further option, in %s:%d", text.Display(o.File), o.Line)
		}
		return nil, &Refusal{Conflicts, why}
	}
	return &Draft{ID: h.ID, Category: h.Category, Line: strings.TrimSpace(l.text), Pattern: p.expr, Cure: m.cure.Command, Before: m.before.Handler, Weak: now.Weak, Checked: checked, YAML: body}, nil
}

// changes returns the handler of an example or counter-example of the catalog on which the verdict changes, or nil. It
// classifies those in which some line has what the pattern wants: without a match a handler changes nothing.
func (m *maker) changes(k *classify.Classifier, expr string) (changed *catalog.Handler, checked int, err error) {
	// The classifier removes what tools write before lines, so the pattern may match in the middle of one.
	anywhere, err := regexp.Compile(`(?im)` + strings.TrimPrefix(strings.TrimSuffix(expr, "$"), "^"))
	if err != nil {
		return nil, 0, fmt.Errorf("compiling a drafted pattern: %w", err)
	}
	for i := range m.cat.Handlers {
		h := &m.cat.Handlers[i]
		for _, e := range slices.Concat(h.Examples, h.CounterExamples) {
			checked++
			if !anywhere.MatchString(text.Uncoloured(e.Stdout)) && !anywhere.MatchString(text.Uncoloured(e.Stderr)) {
				continue
			}
			was, err := verdict(m.ctx, m.k, h, e)
			if err != nil {
				return nil, checked, err
			}
			is, err := verdict(m.ctx, k, h, e)
			if err != nil {
				return nil, checked, err
			}
			if was != is {
				return h, checked, nil
			}
		}
	}
	return nil, checked, nil
}

// decided is what must not change of a verdict.
type decided struct {
	handler, category string
	code, weak        bool
}

func verdict(ctx context.Context, k *classify.Classifier, h *catalog.Handler, e catalog.Example) (decided, error) {
	in := classify.ExampleInput(h, e)
	if in.Exit.OK() {
		in.Exit.Code = 1 // a counter-example may show a success
	}
	f, err := k.Classify(ctx, in)
	return decided{f.Handler, f.Category, f.Code, f.Weak}, err
}
