package failures

import (
	"context"
	"fmt"
	"io"
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

const maxProblems = 20 // bounds the number of problems of the operator's own rules in an event

// keptFor is how long an unused rule book stays in memory. A rule book takes ten megabytes and is read in some
// milliseconds, and a loop often waits for hours. A rule book that holds files of the operator or of the repository
// always stays.
const keptFor = time.Second

// Rules is the rule book of a loop: what superloop's catalog and the operator's own files say about failures. Rules
// reads the operator's files once, at the first use. It is safe for concurrent use.
type Rules struct {
	read func() *book
	told atomic.Bool // the journal holds the problems of the operator's files
}

// book is a rule book in memory, ready for use.
type book struct {
	cat        *catalog.Catalog
	classifier *classify.Classifier
	profile    remedy.Profile
	wrong      []config.Problem
	err        error
}

// NewRules returns the rule book for a repository. It reads no file yet. If life ends before a file is read, that file
// is missing in the rule book. Evidence contains none of the secrets.
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

// readBook reads a rule book, except for the profile of the machine.
func readBook(life context.Context, from catalog.Options, secrets *redact.Replacer) *book {
	b := &book{}
	var problems catalog.Problems
	b.cat, problems = catalog.Load(life, from)
	b.classifier, b.err = classify.New(b.cat, classify.Options{Redact: secrets})
	for _, p := range problems.Errors() {
		if len(b.wrong) < maxProblems {
			b.wrong = append(b.wrong, config.Problem{Pointer: p.Pointer, Message: p.String() + "; type: superloop classify --lint"})
		}
	}
	return b
}

// Sift has the form of proc.Sift: it keeps the lines that the rule book knows. It reads the rule book only for an output
// that is too large.
func (r *Rules) Sift(keep func(offset int64, line []byte)) io.WriteCloser {
	b := r.read()
	if b.err != nil {
		return blind{b.err}
	}
	return b.classifier.Sift(keep)
}

// blind is a sieve without rules.
type blind struct{ err error }

func (b blind) Write(p []byte) (int, error) { return len(p), nil }
func (b blind) Close() error                { return b.err }

// load returns the rule book. The first call records the problems of the operator's own files in the journal.
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
