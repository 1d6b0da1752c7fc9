package classify

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/recovery/catalog"
)

// judgement is one verdict in the making.
type judgement struct {
	c              *Classifier
	in             *Input
	calls          calls
	stdout, stderr *output
	matched        []*match
	order          []*match // the cascade's order, the primary first
	vetoed         []*match
	strong, weak   *match // the first guards of each kind
	method         string
	findings       map[string]Finding
	undeclared     bool // a probe says that only the code can fix it
	confirmed      bool // a probe says that the environment is to blame
	weakened       bool // the code may be to blame as well
}

// match is one handler that applies.
type match struct {
	rule     *rule
	hit      *hit // nil if facts alone matched
	others   []hit
	captures map[string]string
	voice    voice
	near     int  // how close the handler's family is to the command: 2 its method, 1 another program of it, 0 neither
	unsure   bool // whether the command calls the program is a guess
	facts    bool // an exit code, a signal or a fact was part of it
	promoted bool // see promote
}

// collect finds every handler that applies.
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

// apply tries one handler: the cheap conditions first.
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
		return nil // nothing that could be recognised
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

// hits are the kept lines of one pattern. For a guard, what a passing test printed or is called does not count; for the
// others, a test's name does not.
func (j *judgement) hits(pattern int, streams streamSet, guard catalog.Guard) []hit {
	var out []hit
	for _, o := range []*output{j.stderr, j.stdout} {
		if streams&o.name == 0 {
			continue
		}
		for _, h := range o.hits[pattern] {
			if guard == "" {
				h.voice = j.heard(h)
			}
			if h.voice == voicePassed || guard != "" && h.voice == voiceLog || guard == "" && h.voice == voiceName {
				continue
			}
			out = append(out, h)
		}
	}
	return out
}

// heard is a hit's voice when the end of the run is known: what stands before the count of failed tests, and belongs to
// no part of the report, did not end the run, so a test printed it.
func (j *judgement) heard(h hit) voice {
	if h.voice != voiceTool {
		return h.voice
	}
	if ownPrefix().MatchString(h.text) {
		// What npm or git says of a run stands behind its report.
		if o := j.of(h); o.end.found && o.end.failed > 0 && h.line < o.end.line && quotable().MatchString(h.text) && h.stream == onStdout {
			return voiceLog
		}
		return voiceTool
	}
	if strings.HasPrefix(h.text, "panic: ") && (j.stdout.end.found || j.stderr.end.found) {
		return voiceBlock // it ended the run, whoever was told to fail by it
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

// of is the output that a hit stands in.
func (j *judgement) of(h hit) *output {
	if h.stream == onStderr {
		return j.stderr
	}
	return j.stdout
}

// quotable are the lines of tools that tests like to quote.
var quotable = pattern.Lazy(`^(?:npm (?:ERR!|error)|fatal: |E: |docker: |Error response from daemon: |go: )`)

// choose takes the most telling line: the tool's own before a test's, one with captures before one without, the first
// before the later.
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

// forTool reports whether the command is about the tool of a recipe.
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

// near says how close a handler's family is to the command.
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

// relative is how a module's name begins that is a place in the project, so that no installation can bring it.
var relative = pattern.Lazy(`^(?:\.{1,2}(?:/|$)|/|~/|@/|#|src/|.:[\\/])`)
