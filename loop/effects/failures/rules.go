package failures

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
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

// keptFor is how long an unused rule book stays in memory. A rule book takes ten megabytes and is made in some
// milliseconds, and a loop often waits for hours.
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
	type found struct {
		files   *catalog.Sources
		profile remedy.Profile
	}
	find := sync.OnceValue(func() found {
		return found{catalog.Read(life, catalog.Options{UserDir: catalog.UserDir(), RepoDir: repo}), remedy.Detect(life, repo)}
	})
	return &Rules{read: func() *book {
		its := find()
		b := inMemory.of(its.files)
		if b.profile = its.profile; b.err == nil {
			b.classifier = b.classifier.Redacting(secrets)
		}
		return &b
	}}
}

// inMemory holds the rule books in use, for all loops of the process: loops with the same files share one.
var inMemory books

type books struct {
	mu  sync.Mutex
	all []*lent
}

// lent is a rule book without the secrets and the profile of a loop.
type lent struct {
	book
	from  *catalog.Sources
	leave *time.Timer
}

// of returns the rule book of the files. It makes the book unless it is in memory.
func (s *books) of(files *catalog.Sources) book {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.all {
		if l.from.Same(files) {
			l.leave.Reset(keptFor)
			return l.book
		}
	}
	l := &lent{book: makeBook(files), from: files}
	l.leave = time.AfterFunc(keptFor, func() {
		s.mu.Lock()
		s.all = slices.DeleteFunc(s.all, func(other *lent) bool { return other == l })
		s.mu.Unlock()
		debug.FreeOSMemory()
	})
	s.all = append(s.all, l)
	return l.book
}

func makeBook(files *catalog.Sources) (b book) {
	var problems catalog.Problems
	b.cat, problems = files.Load()
	b.classifier, b.err = classify.New(b.cat, classify.Options{})
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
