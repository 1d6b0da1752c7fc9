package failures

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
)

// maxProblems bounds what an event says of the operator's own rules.
const maxProblems = 20

// expectDelay is how long tests run before the rule book is read beside them: those
// that fail at once mostly need none of it, and reading it takes a tenth of a second.
const expectDelay = time.Second

// Rules is the rule book of a loop: what superloop and the operator's own files know of failures. It is read once, by
// whoever needs it first, and is safe for concurrent use.
type Rules struct {
	read func() *book
	told atomic.Bool // what is wrong with the operator's files is in the journal
}

// book is a rule book that was read, ready to be asked.
type book struct {
	cat        *catalog.Catalog
	classifier *classify.Classifier
	profile    remedy.Profile
	wrong      []config.Problem
	err        error
}

// NewRules is the rule book for a repository; it reads nothing yet. When life ends,
// what was not read by then is missing in it. secrets are kept out of all evidence.
func NewRules(life context.Context, repo string, secrets *redact.Replacer) *Rules {
	return &Rules{read: sync.OnceValue(func() *book {
		b := &book{}
		var problems catalog.Problems
		b.cat, problems = catalog.Load(life, catalog.Options{UserDir: catalog.UserDir(), RepoDir: repo})
		b.classifier, b.err = classify.New(b.cat, classify.Options{Redact: secrets})
		b.profile = remedy.Detect(life, repo)
		for _, p := range problems.Errors() {
			if len(b.wrong) < maxProblems {
				b.wrong = append(b.wrong, config.Problem{Pointer: p.Pointer, Message: p.String()})
			}
		}
		return b
	})}
}

// Expect has the rule book read beside something that takes longer than a second and
// may fail. The function that it returns ends the expectation.
func (r *Rules) Expect(s loop.State) (over func()) {
	if !s.Plan.Remediation {
		return func() {}
	}
	timer := time.AfterFunc(expectDelay, func() { r.read() })
	return func() { timer.Stop() }
}

// load gives the rule book. The first time it records what is wrong with the operator's own files.
func (r *Rules) load(j effects.Journal) (*book, error) {
	b := r.read()
	if b.err != nil {
		return nil, fmt.Errorf("reading what superloop knows of failures: %w", b.err)
	}
	if len(b.wrong) > 0 && !r.told.Load() {
		if err := j.Record("config_warning", map[string]any{"problems": b.wrong}); err != nil {
			return nil, err
		}
		r.told.Store(true)
	}
	return b, nil
}
