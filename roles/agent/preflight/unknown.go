package preflight

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
)

// Question is a program of which nothing is known, to be asked whether it works.
type Question struct {
	Path  string        // of the program, absolute
	Dir   string        // where it is to be started
	Env   []string      // its whole environment
	Bound time.Duration // that each command may take; none of them has anything on its standard input
}

// Check is how a program has shown whether it works; nothing is shown if neither Works nor Broken.
type Check struct {
	Works    bool `json:"works"`
	Broken   bool `json:"broken"`
	TimedOut bool `json:"timed_out,omitempty"` // it was ended at its bound, which proves nothing on a busy machine
	// Original is what it was asked first, Repaired what proved that it works where that was another expectation or
	// another command. Method is output_detection, fallback_help or fallback_h; both are "" when Original did.
	Original string `json:"original"`
	Repaired string `json:"repaired"`
	Method   string `json:"method"`
	// ExitCode is that of the command which decided; -1 when it did not end by itself, or was not started.
	ExitCode    int    `json:"exit_code"`
	TimeSavedMS int64  `json:"time_saved_ms,omitempty"` // what it would have taken at least to have an agent find out
	Why         string `json:"why"`                     // a sentence, with the line that decided
	Said        string `json:"-"`                       // what it printed when it was asked for its version
}

// Decided is the command that showed what is known.
func (c Check) Decided() string {
	if c.Works && c.Repaired != "" {
		return c.Repaired
	}
	return c.Original
}

func (e *Examiner) verify(ctx context.Context, path string, l line, bound time.Duration) (Check, error) {
	key := strings.Join([]string{l.env("PATH"), l.Dir, path}, "\x00")
	if c, ok := e.checks[key]; ok {
		return c, nil
	}
	c, err := e.Verify(ctx, Question{Path: path, Dir: l.Dir, Env: l.Env, Bound: bound})
	if err != nil || ctx.Err() != nil {
		return c, err
	}
	c.Why = plain(c.Why)
	e.checks[key] = c
	return c, nil
}

// unknown deals with a program of which nothing is known: whether it works is all that can be asked.
func (e *Examiner) unknown(ctx context.Context, l line, s *subject, rep *Report) {
	base, name := filepath.Base(s.path), s.adapter.Name()
	s.unchecked = fmt.Sprintf("nothing is known of %s (adapter %s), so it is not asked", base, name)
	switch {
	case e.Verify == nil:
		return
	case !s.heeds():
		s.unchecked += "; the script has no answer to --version or --help in it, and might begin to work"
		return
	}
	s.unchecked = fmt.Sprintf("nothing is known of the flags of %s (adapter %s)", base, name)
	bound, at := e.patience(s.adapter), l.at+".command"
	c, err := e.verify(ctx, s.path, l, bound)
	if err != nil {
		rep.add(Warn, at, "try it by hand: "+s.path+" --version", fmt.Sprintf("%s could not be asked whether it works: %v", s.path, err))
		return
	}
	s.check = &c
	byHand := "try it by hand: " + c.Original
	switch {
	case c.Works && c.Method == "":
		if s.version = firstLine(c.Said); s.version == "" {
			rep.add(Note, at, "", c.Original+" prints nothing, which shows little")
		}
	case c.Works:
	case c.TimedOut:
		rep.add(Warn, at, byHand, fmt.Sprintf("%s does not tell its version: no answer within %s", s.path, bound))
	case c.Broken:
		rep.add(Error, at, "install what it lacks, or install it anew; "+byHand, fmt.Sprintf("%s is broken: %s", s.path, c.Why))
	default:
		rep.add(Note, at, byHand, fmt.Sprintf("nothing shows that %s works: %s", s.path, c.Why))
	}
}

var (
	// parsers read arguments; answers are words of a script that knows questions, or hands all on to a program.
	parsers = pattern.Lazy(`(?i)\bgetopts?\b|\b(?:argparse|optparse|docopt|click|typer|optionparser)\b|\bimport \w*main\b|activate_bin_path|load_entry_point`)
	answers = pattern.Lazy(`(?i)\$@|\$\{@|--version|--help|\busage:`)
	// allPrompt: after -- whatever it gets is text for somebody.
	comments  = pattern.Lazy(`(?m)^\s*#.*$`)
	allPrompt = pattern.Lazy(`\s--\s+"?\$[{]?@`)
)

// heeds reports whether a program can be asked for its version without beginning to work: it is no script around
// something else, or one that knows such questions.
func (p program) heeds() bool {
	wrapped, deaf := p.wrapped()
	if !wrapped || len(p.head) >= headSize {
		return true
	}
	code := comments().ReplaceAllString(string(p.head), "")
	return parsers().MatchString(code) || !deaf && answers().MatchString(code) && !allPrompt().MatchString(code)
}
