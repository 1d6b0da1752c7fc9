package classify

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/recovery/catalog"
)

// judgement holds the state of one call of Classify, from which verdict makes the Failure.
type judgement struct {
	c              *Classifier
	in             *Input
	calls          calls
	stdout, stderr *output
	failures       []*failure // the failed tests that the output reports
	matched        []*match
	order          []*match // the matches that rank has put in order, the primary first
	vetoed         []*match
	strong, weak   *match // the first match of a strong guard, and of a weak one
	method         string
	findings       map[string]Finding
	files          map[string][]string // the lines of the files of the project that were read, by their paths
	locals         map[string]string   // where the files that the output names lie
	fault          *fault              // see ownFault
	faultKnown     bool
	ownWords       *hit // the line of an error that the code of the project made, nil if there is none
	undeclared     bool // a probe says that only a change of the code can fix the failure
	confirmed      bool // a probe says that the environment is to blame
	weakened       bool // the code may be to blame as well
}

// match is one handler whose conditions the failure meets.
type match struct {
	rule     *rule
	hit      *hit // the most telling line; nil if the handler has matched by exit code, signal or facts alone
	others   []hit
	captures map[string]string
	voice    voice
	near     int    // how close the handler's family is to the command, see near
	unsure   bool   // it is a guess that the command calls a program of the handler
	facts    bool   // an exit code, a signal or a fact was part of the match
	promoted bool   // see promote
	refuted  string // what a probe has found that contradicts the match
}

// collect finds every handler that matches the failure.
func (j *judgement) collect() {
	if len(j.calls.families) > 0 {
		j.method = j.calls.families[0]
	}
	for i := range j.c.prog.handlers {
		if m := j.apply(&j.c.prog.handlers[i]); m != nil {
			j.matched = append(j.matched, m)
		}
	}
}

// apply tries one handler, the cheap conditions first. It returns nil if the handler does not match.
func (j *judgement) apply(r *rule) *match {
	h := r.h
	m := &match{rule: r, voice: voiceTool}
	if len(h.Match.Commands) > 0 {
		yes, hinted := j.calls.matches(h.Match.Commands)
		m.unsure = hinted
		if !yes {
			if !j.calls.opaque && len(j.calls.words) > 0 {
				return nil
			}
			m.unsure = true
		}
	}
	if h.Layer == catalog.LayerRecipe && !j.forTool(h.Family) {
		return nil
	}
	if !j.exitFits(h) {
		return nil
	}
	m.facts = len(h.Match.ExitCodes)+len(h.Match.Signals)+len(h.Match.Facts) > 0
	if len(r.any)+len(r.all) == 0 && !m.facts {
		return nil // the handler has no condition that recognises a failure
	}
	streams := r.streams
	if j.in.Merged {
		streams = onBoth
	}
	for _, n := range r.not {
		if len(j.hits(n, onBoth, h.Guard)) > 0 {
			return nil
		}
	}
	m.captures = map[string]string{}
	var all []hit
	for _, n := range r.all {
		hits := j.hits(n, streams, h.Guard)
		if len(hits) == 0 {
			return nil
		}
		all = append(all, hits...)
	}
	var anyHits []hit
	for _, n := range r.any {
		anyHits = append(anyHits, j.hits(n, streams, h.Guard)...)
	}
	if len(r.any) > 0 && len(anyHits) == 0 {
		return nil
	}
	m.choose(anyHits, all)
	m.near = j.near(h)
	return m
}

// hits returns the kept lines of one pattern that count. The status line of a test that passed never counts. For a
// guard, a line that a test printed does not count, nor one about a file that is not the project's. For other handlers, the status line of a failed test and a compared
// value do not count.
func (j *judgement) hits(pattern int, streams streamSet, guard catalog.Guard) []hit {
	var out []hit
	for _, o := range []*output{j.stderr, j.stdout} {
		if streams&o.name == 0 {
			continue
		}
		for _, h := range o.hits[pattern] {
			if guard == "" {
				h.voice = j.heard(h)
				if checksFailed().MatchString(h.text) && !j.c.prog.matches(pattern, literal().ReplaceAllString(h.text, "")) {
					h.voice = voiceName // only what the line quotes matches
				}
			}
			if guard != "" && foreignPlace(h.text) || h.voice == voicePassed || guard != "" && h.voice == voiceLog || guard == "" && h.voice == voiceName {
				continue
			}
			out = append(out, h)
		}
	}
	return out
}

// heard corrects the voice of a hit after the whole output has been read. A line before the count of failed tests that
// belongs to no part of the report did not end the run: a test printed it.
func (j *judgement) heard(h hit) voice {
	if h.of != nil {
		return voiceSuite
	}
	if h.topic || h.quoted && h.checked && (diagnosed().MatchString(h.text) || !exception().MatchString(h.text)) {
		return voiceName // a check says something of a text, or a compiler or a checker quotes the code
	}
	if h.voice != voicePassed && h.voice != voiceName && j.inReport(h) {
		return voiceLog
	}
	if h.voice != voiceTool {
		return h.voice
	}
	if ownPrefix().MatchString(h.text) {
		// What npm or git says about a run of tests stands after the report of that run.
		if o := j.of(h); o.end.found && o.end.failed > 0 && h.line < o.end.line && quotable().MatchString(h.text) && h.stream == onStdout {
			return voiceLog
		}
		return voiceTool
	}
	if strings.HasPrefix(h.text, "panic: ") && (j.stdout.end.found || j.stderr.end.found) {
		return voiceBlock // a panic ends the run, so it belongs to the report
	}
	own, other := j.stdout.end, j.stderr.end
	if h.stream == onStderr {
		own, other = other, own
	}
	if own.found && own.failed > 0 && h.line < own.line || !own.found && other.found && other.failed > 0 {
		return voiceLog
	}
	return voiceTool
}

// checksFailed matches a line in which a program says that checks of its own have failed.
var checksFailed = pattern.Lazy(`(?i)\b(?:checks|tests|assertions|expectations) (?:have )?failed\b|\bfailed (?:checks|tests|assertions)\b|\b\d+ of \d+ (?:check|test) failed\b`)

// of returns the output that contains a hit.
func (j *judgement) of(h hit) *output {
	if h.stream == onStderr {
		return j.stderr
	}
	return j.stdout
}

// quotable matches the lines of tools that tests often quote.
var quotable = pattern.Lazy(`^(?:npm (?:ERR!|error)|fatal: |E: |docker: |Error response from daemon: |go: )`)

// choose makes the most telling line the hit of the match. A line of the tool itself comes before a line of a test.
// Then a line with captures comes before a line without, and an earlier line before a later one. choose takes a line of
// all only if anyHits is empty.
func (m *match) choose(anyHits, all []hit) {
	list := append(anyHits, all...)
	if len(list) == 0 {
		return
	}
	tells := func(h hit) int { return 2*bit(h.voice.own()) + bit(len(h.captures) > 0) }
	scope := list
	if len(anyHits) > 0 {
		scope = list[:len(anyHits)]
	}
	best := 0
	for i := range scope {
		if tells(scope[i]) > tells(scope[best]) {
			best = i
		}
	}
	primary := list[best]
	m.hit, m.voice = &primary, primary.voice
	maps.Copy(m.captures, primary.captures)
	for i, h := range list {
		if i == best {
			continue
		}
		m.others = append(m.others, h)
		for k, v := range h.captures {
			if _, have := m.captures[k]; !have {
				m.captures[k] = v
			}
		}
	}
}

func (j *judgement) exitFits(h *catalog.Handler) bool {
	e := j.in.Exit
	facts := map[catalog.Fact]bool{catalog.FactTimedOut: e.TimedOut, catalog.FactOOM: e.OOM, catalog.FactNotStarted: e.NotStarted, catalog.FactNoOutput: j.silent()}
	return (len(h.Match.ExitCodes) == 0 || e.Signal == "" && slices.Contains(h.Match.ExitCodes, e.Code)) &&
		(len(h.Match.Signals) == 0 || slices.Contains(h.Match.Signals, e.Signal)) &&
		(len(h.Match.Facts) == 0 || slices.ContainsFunc(h.Match.Facts, func(f catalog.Fact) bool { return facts[f] }))
}

func (j *judgement) silent() bool { return j.stdout.bytes+j.stderr.bytes == 0 }

// forTool reports whether the command installs or calls the tool of the recipe with this id.
func (j *judgement) forTool(id string) bool {
	if j.in.Tool != "" {
		return j.in.Tool == id
	}
	for i := range j.c.cat.Recipes {
		r := &j.c.cat.Recipes[i]
		if r.ID == id && slices.ContainsFunc(j.calls.words, func(call []string) bool { return call[0] == programName(cmp.Or(r.CLI, r.ID)) }) {
			return true
		}
	}
	return false
}

// near returns how close the method family of a handler is to the command: 2 for the family of the command's first
// call, 1 for the family or the name of another call or a kindred family, 0 for any other. For a handler of another
// layer than the method layer it returns 0.
func (j *judgement) near(h *catalog.Handler) int {
	if h.Layer != catalog.LayerMethod {
		return 0
	}
	switch {
	case h.Family == j.method:
		return 2
	case slices.Contains(j.calls.families, h.Family),
		h.Family != "" && slices.ContainsFunc(append(j.calls.families, j.method), func(f string) bool { return named("kin", f) == h.Family }),
		slices.ContainsFunc(j.calls.words, func(w []string) bool { return w[0] == h.Family }):
		return 1
	}
	return 0
}

// relative matches the beginning of a module's name that is a path in the project. No installation can provide such a
// module.
var relative = pattern.Lazy(`^(?:\.{1,2}(?:/|$)|/|~/|@/|#|src/|.:[\\/])`)
