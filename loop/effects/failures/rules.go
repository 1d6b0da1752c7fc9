package failures

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
)

const maxProblems = 20 // bounds what an event says of the operator's own rules

// keptFor is how long a rule book is kept that nobody asks: mostly the loop waits then, for hours, and the book takes
// ten megabytes and is read in some milliseconds.
const keptFor = 5 * time.Second

// Rules is the rule book of a loop: what superloop and the operator's own files know of failures. The operator's files
// are read once, when somebody needs them first. It is safe for concurrent use.
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

// NewRules is the rule book for a repository; it reads nothing yet. When life ends, what was not read by then is
// missing in it. secrets are kept out of all evidence.
func NewRules(life context.Context, repo string, secrets *redact.Replacer) *Rules {
	var mu sync.Mutex
	var now, first *book
	var leave *time.Timer
	return &Rules{read: func() *book {
		mu.Lock()
		defer mu.Unlock()
		if leave != nil {
			leave.Stop()
		}
		switch {
		case now != nil:
		case first == nil:
			now = readBook(life, catalog.Options{UserDir: catalog.UserDir(), RepoDir: repo}, secrets)
			now.profile = remedy.Detect(life, repo)
			first = &book{profile: now.profile, wrong: now.wrong}
		default:
			now = readBook(life, catalog.Options{}, secrets)
			now.profile, now.wrong = first.profile, first.wrong
		}
		if !now.cat.Overlaid {
			leave = time.AfterFunc(keptFor, func() {
				mu.Lock()
				now = nil
				mu.Unlock()
				debug.FreeOSMemory()
			})
		}
		return now
	}}
}

// readBook reads a rule book, all but the profile of the machine.
func readBook(life context.Context, from catalog.Options, secrets *redact.Replacer) *book {
	b := &book{}
	var problems catalog.Problems
	b.cat, problems = catalog.Load(life, from)
	b.classifier, b.err = classify.New(b.cat, classify.Options{Redact: secrets})
	for _, p := range problems.Errors() {
		if len(b.wrong) < maxProblems {
			b.wrong = append(b.wrong, config.Problem{Pointer: p.Pointer, Message: p.String()})
		}
	}
	return b
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
