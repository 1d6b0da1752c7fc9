package classify

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/recovery/catalog"
)

// rank orders the matches: dominators first, then recipes, the method's family, other families, handlers for any
// command, bootstrap. The guards come last. A strong guard vetoes all matches but dominators and recipes.
func (j *judgement) rank(ctx context.Context) {
	var rest []*match
	for _, m := range j.matched {
		switch m.rule.h.Guard {
		case catalog.GuardStrong:
			j.strong = cmp.Or(j.strong, m)
		case catalog.GuardWeak:
			j.weak = cmp.Or(j.weak, m)
		default:
			rest = append(rest, m)
		}
	}
	if j.strong != nil && j.outerOnly() && j.strong.hit != nil && j.inReport(*j.strong.hit) {
		j.strong, j.weak = nil, cmp.Or(j.weak, j.strong)
	}
	rest = slices.DeleteFunc(rest, func(m *match) bool {
		if m.hit == nil || !j.madeNear(*m.hit) || m.rule.h.Dominates && j.full(ctx, m) {
			return false
		}
		j.ownWords = m.hit
		return true
	})
	rest = j.onlyTests(ctx, j.lastTry(rest))
	rest = slices.DeleteFunc(rest, j.ownUse)
	rest = slices.DeleteFunc(rest, j.guardKnows)
	promote(rest)
	key := func(m *match) []int {
		return []int{bit(m.dominates()), bit(m.voice.own()), m.rule.h.Layer.Rank(), m.near, -bit(m.unsure)}
	}
	slices.SortStableFunc(rest, func(a, b *match) int { return slices.Compare(key(b), key(a)) })
	if j.strong != nil {
		kept := rest[:0:0]
		for _, m := range rest {
			switch {
			case m.dominates(), m.rule.h.Layer == catalog.LayerRecipe && m.voice.own():
				kept = append(kept, m)
			case m.rule.h.Dominates && j.full(ctx, m):
				j.confirmed = true
				kept = append(kept, m)
			default:
				j.vetoed = append(j.vetoed, m)
			}
		}
		rest = kept
	}
	j.order = rest
	for len(j.order) > 0 && !j.holds(ctx, j.order[0]) {
		refuted := j.order[0]
		j.order = slices.DeleteFunc(slices.Clone(j.order), func(m *match) bool {
			same := m == refuted || m.hit != nil && refuted.hit != nil && m.hit.stream == refuted.hit.stream && m.hit.line == refuted.hit.line
			if same {
				j.vetoed = append(j.vetoed, m)
			}
			return same
		})
	}
	// What only knows the phrases of all programs adds nothing to what knows the program.
	if len(j.order) > 0 && !j.order[0].general() {
		j.order = slices.DeleteFunc(j.order, (*match).general)
	}
	j.guards()
}

// holds makes the probes of a match. It reports false if they contradict the match and a test or the code may have
// written its line. What a tool itself says was true when it said it: such a match stays, but as a weak one.
func (j *judgement) holds(ctx context.Context, m *match) bool {
	j.probe(ctx, m)
	if m.refuted == "" {
		return true
	}
	if j.strong == nil && j.weak == nil && !m.byTest() {
		j.weakened = true
		return true
	}
	j.confirmed, j.undeclared, j.weakened = false, false, false
	return false
}

// inReport reports whether a hit stands in the report of a failed test.
func (j *judgement) inReport(h hit) bool {
	return slices.ContainsFunc(j.failures, func(f *failure) bool { return f.has(h) })
}

// ownUse reports whether a match is about wrong arguments of a program of the project. The code is to blame for them.
func (j *judgement) ownUse(m *match) bool {
	h := m.rule.h
	if !j.calls.script && !j.builds() || m.hit == nil || h.Category != "invalid_arguments" || h.Confidence == 0 || h.Confidence > maxGeneral {
		return false
	}
	return !slices.ContainsFunc(j.calls.words, func(call []string) bool { return strings.HasPrefix(m.hit.text, call[0]+": ") }) && !j.namesProgram(m.hit)
}

// speaks matches a line in which a program names itself: before a message, or in a hint at its help.
var speaks = pattern.Lazy(`^(?:/\S+/)?([a-z][\w+-]*): |(?i:^usage:|\b(?:see|try)) *['"‘` + "`" + `]?(?:/\S+/)?([a-z][\w+-]*)\b`)

// namesProgram reports whether a program that the catalog knows refuses an argument: the line of the hit, or a hint near
// it, names the program.
func (j *judgement) namesProgram(h *hit) bool {
	o := j.of(*h)
	i := int(h.line-o.lines) + len(o.tail) - 1
	if i < 0 || i >= len(o.tail) {
		return false
	}
	return slices.ContainsFunc(o.tail[max(0, i-8):min(len(o.tail), i+4)], func(l string) bool {
		m := speaks().FindStringSubmatch(l)
		if m == nil {
			return false
		}
		_, known := j.c.cat.Names.Programs[m[1]+m[2]]
		return known
	})
}

// onlyTests drops matches that do not explain why a test failed. It drops lines that the program survived, such as a
// health check that was tried again or a tool that was skipped. It drops lines that a test printed. And it drops
// general words, such as "permission denied", inside the report of a failed test: a test that provokes such an error,
// or a defect of the code under test, prints the same words.
func (j *judgement) onlyTests(ctx context.Context, all []*match) []*match {
	if j.weak == nil && j.strong == nil && len(j.failures) == 0 && !(j.calls.script && j.stdout.end.failed+j.stderr.end.failed > 0) {
		return all
	}
	threw := j.threw()
	return slices.DeleteFunc(all, func(m *match) bool {
		if threw != nil && m.hit != nil {
			mistake, same := ownMistake().MatchString(threw.text), m.hit.stream == threw.stream
			switch {
			case same && m.hit.line == threw.line && mistake && m.hit.quoted:
				return true // the exception quotes what the program was given
			case same && m.hit.line >= threw.line:
			case threw.follows(m.hit):
				return false
			case m.general() && mistake:
				return true
			case same && m.hit.line < j.traceStart(threw) && (!m.rule.h.Dominates || mistake && !noValue().MatchString(threw.text) && !j.full(ctx, m)):
				return true
			}
		}
		switch {
		case m.hit != nil && survived().MatchString(m.hit.text):
			return !m.rule.h.Dominates || !j.full(ctx, m)
		case m.general() && j.onlyChecks():
			return true
		case m.voice.own():
			return false
		case m.rule.h.Dominates:
			return m.voice == voiceLog && j.strong == nil && !j.full(ctx, m)
		case m.rule.h.Confidence > 0 && m.rule.h.Confidence <= maxGeneral:
			return true
		}
		return m.voice == voiceLog
	})
}

// general reports whether a match knows the phrases of any program only, not the words of one.
func (m *match) general() bool {
	return m.rule.h.Confidence > 0 && m.rule.h.Confidence <= maxPhrase
}

// onlyChecks reports whether every failed test of the output was ended by a check. What else the output says of the
// environment, the tests survived.
func (j *judgement) onlyChecks() bool {
	return len(j.failures) > 0 && !slices.ContainsFunc(j.failures, func(f *failure) bool { return !f.Asserted })
}

// guardKnows reports whether a match knows only general phrases of a line that a guard knows as a diagnostic of the code.
func (j *judgement) guardKnows(m *match) bool {
	if !m.general() || m.hit == nil || !diagnosed().MatchString(m.hit.text) || outside().MatchString(m.hit.text) || lacks().MatchString(m.hit.text) {
		return false
	}
	return slices.ContainsFunc(j.matched, func(g *match) bool {
		return g.rule.h.Guard != catalog.GuardNone && slices.ContainsFunc(append(g.others, *orZero(g.hit)), func(h hit) bool {
			return h.stream == m.hit.stream && h.line == m.hit.line
		})
	})
}

// follows reports whether an exception about a missing value is the consequence of a failed call that the program of PHP
// was warned of just before: the call returned no value.
func (h *hit) follows(call *hit) bool {
	return h.stream == call.stream && call.line < h.line && h.line-call.line <= maxHeader && warned().MatchString(call.text) &&
		ownMistake().MatchString(h.text) && noValue().MatchString(h.text)
}

// warned matches the line in which PHP tells that a call failed.
var warned = pattern.Lazy(`^(?:PHP )?Warning:\s`)

// survived matches the message of a program that goes on after a failed step.
var survived = pattern.Lazy(`(?i)\b(?:skipp(?:ed|ing)|ignor(?:ed|ing)|retrying|will retry|trying again|falling back|fall back|continuing|using (?:\S+ ){0,3}instead|trying (?:the )?(?:another|next|mirror|other)\b|, using \S+$|non-fatal|not fatal)\b|^\W*(?:PHP )?(?:warn(?:ing)?|notice|deprecated)\b`)

// threw returns the exception that ended a program of the project, or nil if there is none. The program survived the
// errors that it had printed long before the exception.
func (j *judgement) threw() *hit {
	var last *hit
	for _, m := range j.matched {
		if m.rule.h.Guard != catalog.GuardWeak || m.hit == nil || !m.voice.own() || !exception().MatchString(m.hit.text) && !strings.HasPrefix(m.hit.text, "panic: ") && !strings.HasPrefix(m.hit.text, cppEnd) {
			continue
		}
		if last == nil || m.hit.line > last.line {
			last = m.hit
		}
	}
	return last
}

// traceStart returns the number of the first line that may belong to an exception's report. An exception that no state
// of the machine causes, such as a NameError, has a short report: the program survived the errors before it. An
// exception about a missing value (None, null) may be the consequence of an error shortly before it, so its report is
// taken to be maxTrace lines long.
func (j *judgement) traceStart(threw *hit) int64 {
	if !ownMistake().MatchString(threw.text) || noValue().MatchString(threw.text) {
		return threw.line - maxTrace
	}
	o := j.of(*threw)
	first := o.lines - int64(len(o.tail)) + 1
	for i, l := range o.tail {
		if n := first + int64(i); n < threw.line && strings.Contains(l, "Traceback (most recent call last):") {
			return max(n, threw.line-maxTrace)
		}
	}
	return threw.line - maxHeader
}

var (
	ownMistake = pattern.Lazy(`^(?:PHP )?(?:Fatal error: +)?(?:Uncaught )?(?:NameError|UnboundLocalError|AttributeError|TypeError|ReferenceError|RecursionError|RangeError|ZeroDivisionError|NotImplementedError|IndexError|KeyError): `)
	noValue    = pattern.Lazy(`\b(?:NoneType|None|null|undefined|nil)\b|\b(?:bool|false) given\b|\bfetch failed|\bterminated$`)
)

// cppEnd is the beginning of the line with which the runtime of C++ tells that an exception ended the program. The next
// line has the message of the exception.
const cppEnd = "terminate called after throwing an instance of "

const (
	maxHeader  = 6   // lines that JavaScript prints before an exception's name: the place, the line of the code, the mark of the column
	maxTrace   = 60  // lines that an exception's own report takes before its name
	maxPhrase  = 0.5 // a handler with at most this confidence matches the phrases that all programs share
	maxGeneral = 0.6 // a handler with at most this confidence matches general words, not the words of one tool
)

// guards appends the guards to the order. It sets weakened if the code may be to blame as well as the environment.
func (j *judgement) guards() {
	var guards []*match
	for _, kind := range []catalog.Guard{catalog.GuardStrong, catalog.GuardWeak} {
		for _, m := range j.matched {
			if m.rule.h.Guard == kind {
				guards = append(guards, m)
			}
		}
	}
	if len(j.order) == 0 {
		j.order = guards
		return
	}
	first := j.order[0]
	j.weakened = !j.confirmed && (j.weakened || j.ownSpeaks(first) || j.weak != nil && !first.dominates() || !first.voice.own() || first.byTest())
	j.order = append(j.order, guards...)
}

// ownSpeaks reports whether a match knows general words of a line that a program of the project may have written: it names
// no program of the machine, and nothing of it is a runtime's. Such a program may as well tell what it checks or plays. A line
// that a rule of the operator knows is believed.
func (j *judgement) ownSpeaks(m *match) bool {
	if m.hit == nil || !m.rule.h.Dominates && !m.general() || !j.calls.own && !j.calls.script && !j.builds() {
		return false
	}
	l := m.hit.text
	if slices.ContainsFunc(j.order, func(o *match) bool {
		return o.rule.h.Origin.Source == catalog.SourceUser && o.hit != nil && o.hit.text == l
	}) {
		return false
	}
	if framed().MatchString(l) || exception().MatchString(l) || ownPrefix().MatchString(l) {
		return false
	}
	for _, m := range speaks().FindAllStringSubmatch(l, 2) {
		if _, known := j.c.cat.Names.Programs[m[1]+m[2]]; known {
			return false
		}
	}
	return true
}

// finding matches a line in which a checker says what is wrong at a place of the file that it named before.
var finding = pattern.Lazy(`^\s*\d+:\d+\s+(?:error|warning|info|✖|⚠|×)\s`)

// assertion matches a line in which a check of any runtime says that it has failed.
var assertion = pattern.Lazy(`^(?:Exception in thread "[^"]*" |(?:[Uu]ncaught |Caused by: )*)(?:[a-z_][\w$]*\.)*Assertion(?:Failed)?Error\b`)

// dominates reports whether the failures of the other matches are consequences of this match's failure. What a checker or
// a failed check says about the code is no failure of the machine.
func (m *match) dominates() bool {
	return (m.rule.h.Dominates || m.promoted) && !m.byTest() && (m.hit == nil || !finding().MatchString(m.hit.text) && !assertion().MatchString(m.hit.text))
}

// byTest reports whether a test is the only one that says what the match is about.
func (m *match) byTest() bool { return !m.voice.own() || m.hit != nil && m.hit.of != nil }

// promote marks each match that has the same category as a dominator, such as npm's own message about a full disk next
// to the message of the system. A marked match ranks as a dominator, too.
func promote(all []*match) {
	found := map[string]bool{}
	for _, m := range all {
		if m.rule.h.Dominates && m.voice.own() {
			found[m.rule.h.Category] = true
		}
	}
	for _, m := range all {
		m.promoted = found[m.rule.h.Category] && m.hit != nil && m.voice.own()
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// reportEnd matches the line with which npm ends its report of a failure.
var reportEnd = pattern.Lazy(`^npm (?:ERR!|error) A complete log of this run can be found in:`)

// lastTry drops the matches of an earlier alternative in a command such as `npm ci || npm install`, because the command
// ended with the failure of the last alternative. It keeps all matches of a stream if none stands in the last report.
func (j *judgement) lastTry(all []*match) []*match {
	if !strings.Contains(j.in.Command, "||") {
		return all
	}
	for _, o := range []*output{j.stderr, j.stdout} {
		cut := o.lastReport()
		if cut == 0 {
			continue
		}
		earlier := func(m *match) bool {
			return m.hit != nil && m.hit.stream == o.name && m.hit.line <= cut &&
				!slices.ContainsFunc(m.others, func(h hit) bool { return h.stream == o.name && h.line > cut })
		}
		if slices.ContainsFunc(all, func(m *match) bool { return m.hit != nil && m.hit.stream == o.name && !earlier(m) }) {
			all = slices.DeleteFunc(slices.Clone(all), earlier)
		}
	}
	return all
}

// lastReport returns the number of the line that ends the report before the last one, or 0 if there is only one report.
func (o *output) lastReport() int64 {
	var cut, end int64
	for i, l := range o.tail {
		switch {
		case reportEnd().MatchString(l):
			cut, end = end, o.lines-int64(len(o.tail)-1-i)
		case end > 0 && strings.TrimSpace(l) != "" && !strings.HasPrefix(l, "npm ERR! ") && !strings.HasPrefix(l, "npm error "):
			// A program other than npm goes on; its report has no end that reportEnd matches.
			cut = end
		}
	}
	return cut
}
