package catalog

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	handlerID = pattern.Lazy(`^[a-z][a-z0-9_]*$`)
	signalID  = pattern.Lazy(`^SIG[A-Z0-9+-]+$`)
)

// Probes lists the probes that a handler may name, each with the capture that it looks at ("" for none).
func Probes() map[string]string {
	return map[string]string{
		"declared": "pkg", "first_line": "script", "writable": "path", "free_space": "path", "lock_holder": "lock",
		"port_owner": "port", "which": "tool", "service": "port", "exists": "path", "oom": "",
	}
}

func persistences() []string {
	return strings.Fields("transient environment permanent code usage unknown")
}

func facts() []string { return texts(FactTimedOut, FactOOM, FactNotStarted, FactNoOutput) }

func (l *linter) handler(h *Handler) {
	if !handlerID().MatchString(h.ID) {
		l.fail(tokens("id"), "must be lower-case letters, digits and _: %q", clip(h.ID))
	}
	cat, ok := l.c.Category(h.Category)
	switch {
	case h.Category == "":
		l.fail(nil, "has no category")
	case !ok:
		l.known(tokens("category"), "category", h.Category, l.categories)
	}
	if h.Persistence != "" {
		l.known(tokens("persistence"), "persistence", h.Persistence, persistences())
	}
	l.fraction(tokens("confidence"), h.Confidence)
	if r, ok := l.c.Recipe(h.Family); ok && h.Layer == LayerRecipe {
		l.ownRepo = len(r.RepoSetup) > 0
	}
	captures := l.match(h)
	probes := Probes()
	for i, p := range h.Probes {
		capture, known := probes[p]
		if !known {
			l.known(tokens("probes", nth(i)), "probe", p, sortedKeys(probes))
		} else if capture != "" && !captures.some[capture] {
			l.warn(tokens("probes", nth(i)), "the probe %s looks at the capture %q, which no pattern has: write (?P<%s>...)", p, capture, capture)
		}
	}
	l.examples(h)
	isCode := cat != nil && cat.Area == "code"
	switch {
	case h.Layer == LayerGuard && h.Guard != GuardStrong && h.Guard != GuardWeak:
		l.fail(tokens("guard"), "a handler of the guards needs guard: strong or guard: weak")
	case h.Layer != LayerGuard && h.Guard != GuardNone:
		l.fail(tokens("guard"), "a guard stands in a file with layer: guard")
	case h.Guard != GuardNone:
		if len(h.Options) > 0 {
			l.fail(tokens("options"), "a guard has no options: it recognises code, which only a change of the code cures")
		}
		if cat != nil && !isCode {
			l.fail(tokens("category"), "a guard's category is code_bug")
		}
		if h.Dominates {
			l.fail(tokens("dominates"), "a guard cannot dominate")
		}
	default:
		l.options(h, captures)
		for i := range h.Options {
			if o := &h.Options[i]; isCode && o.Executor == ByWrapper {
				l.fail(tokens("options", "@"+o.ID), "nothing of the category %s may be run by superloop: give it executor: role or strategy: manual", cat.ID)
			}
		}
	}
}

// captures are the named groups of a handler: of some pattern that may match, and of whatever matches.
type captures struct{ some, every map[string]bool }

func (l *linter) match(h *Handler) captures {
	m := &h.Match
	c := captures{some: map[string]bool{}, every: map[string]bool{}}
	if len(m.Any)+len(m.All)+len(m.Not) > maxPatterns && l.origin.Source != SourceEmbedded {
		l.fail(tokens("match"), "more than %d patterns: split the handler", maxPatterns)
		return c
	}
	for i, p := range m.Any {
		now := map[string]bool{}
		for _, name := range l.pattern(tokens("match", "any", nth(i)), p) {
			c.some[name] = true
			if i == 0 || c.every[name] {
				now[name] = true
			}
		}
		c.every = now
	}
	for i, p := range m.All {
		for _, name := range l.pattern(tokens("match", "all", nth(i)), p) {
			c.some[name], c.every[name] = true, true
		}
	}
	for i, p := range m.Not {
		l.pattern(tokens("match", "not", nth(i)), p)
	}
	if len(m.Any)+len(m.All)+len(m.ExitCodes)+len(m.Signals)+len(m.Facts) == 0 {
		l.fail(tokens("match"), "says nothing that a failure must have: give any, all, exit_codes, signals or facts")
	}
	for i, code := range m.ExitCodes {
		if code < 1 || code > 255 {
			l.fail(tokens("match", "exit_codes", nth(i)), "must be from 1 to 255, not %d", code)
		}
	}
	for i, s := range m.Signals {
		if !signalID().MatchString(s) {
			l.fail(tokens("match", "signals", nth(i)), "must be a name like SIGKILL, not %q", clip(s))
		}
	}
	allKnown(l, tokens("match", "facts"), "fact", m.Facts, facts())
	allKnown(l, tokens("match", "streams"), "stream", m.Streams, []string{"stdout", "stderr"})
	for i, s := range m.Commands {
		if strings.TrimSpace(s) == "" {
			l.fail(tokens("match", "commands", nth(i)), "is empty")
		}
	}
	return c
}

func (l *linter) examples(h *Handler) {
	complain := l.warn
	if l.origin.Source == SourceEmbedded {
		complain = l.fail
	}
	if len(h.Examples) == 0 {
		complain(tokens("examples"), "the handler %q has no example: give a real output that it recognises", h.ID)
	}
	if len(h.CounterExamples) == 0 {
		complain(tokens("counter_examples"), "the handler %q has no counter-example: give a real output that looks alike and is something else", h.ID)
	}
	for i := range h.Examples {
		e := &h.Examples[i]
		if e.ExitCode == 0 && e.Signal == "" && !e.TimedOut && !e.OOM && !slices.Contains(h.Match.Facts, FactNotStarted) {
			l.warn(tokens("examples", nth(i)), "it ended well by its exit code, so that nobody will ask what failed")
		}
		if e.Signal != "" && !signalID().MatchString(e.Signal) {
			complain(tokens("examples", nth(i), "signal"), "must be a name like SIGKILL, not %q", clip(e.Signal))
		}
	}
}
