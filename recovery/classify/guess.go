package classify

import (
	_ "embed" // for the model
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/wordmodel"
	"github.com/superloop/superloop/recovery/catalog"
)

// No catalog has the words of every program. For an output that no handler knows, a model of words says what it is most
// likely about; the recorded failures of testdata are what it has learned from. Such a verdict is a guess: it names no
// handler, its confidence is low, and what follows from it is proposed at most.

// guess is what the model says.
type guess struct {
	category string // CategoryCode or an infrastructure category
	chance   float64
	line     hit // the line that speaks most for it
}

const (
	leastChance  = 0.3  // a less likely category is no better than unknown
	codeChance   = 0.5  // of the code, from which on the guess is the code
	testsChance  = 0.75 // of the environment in what ended the failed tests
	deniesChance = 0.9  // of the code, where a handler has matched and a guard blames the code, too
	maxGuessed   = 0.35 // the confidence of a guess
	leastKnown   = 0.1  // of the words: what has fewer is no text in a language of the model
	guessedLines = 60   // lines at the end of each stream that the model reads
)

//go:embed words.bin
var wordsData []byte

// wordsModel returns the model. It is made of the corpora by go generate.
//
//go:generate go test -run ^TestWordsAreTheCorpora$ -update .
var wordsModel = sync.OnceValue(func() *wordmodel.Model {
	m, err := wordmodel.Decode(wordsData)
	if err != nil {
		panic("the embedded model of words is damaged: " + err.Error()) // a test decodes it
	}
	return m
})

// guessed returns what the model says of an output where rules do not decide, and nil where they do.
func (j *judgement) guessed() *guess {
	if j.silent() || j.ownWords != nil || j.in.Exit.OOM || j.in.Exit.TimedOut || j.in.Exit.NotStarted || j.strong != nil || len(j.vetoed) > 0 || j.stdout.broken || j.stderr.broken {
		return nil // a probe, a guard or the code has refuted what the words say, or not all words are known
	}
	if len(j.order) == 0 && len(j.failures) > 0 {
		return sure(byWords(j.ended()))
	}
	if len(j.order) == 0 {
		own := j.ownFault()
		if own != nil && !own.message {
			return nil
		}
		g := byWords(j.ends())
		if g != nil && g.category == CategoryCode && g.chance < deniesChance && !j.calls.own && !j.calls.script && !j.judges() {
			return nil // a program of the machine speaks, which is not there to judge code
		}
		if g != nil && own != nil && (g.category == CategoryCode || g.chance < testsChance) {
			return nil // the message itself is the better evidence
		}
		return g
	}
	p := j.order[0]
	switch {
	case p.rule.h.Guard == catalog.GuardWeak && !j.guarded():
		// The environment ended the tests, in words that no handler knows.
		return sure(byWords(j.ended()))
	case p.rule.h.Guard == catalog.GuardNone && !j.confirmed && !j.names(p) && (p.byTest() && (p.rule.h.Confidence > 0 && p.rule.h.Confidence <= maxGeneral || p.rule.h.Dominates) || j.weak != nil && (p.rule.h.Dominates || p.rule.h.Confidence > 0 && p.rule.h.Confidence <= maxGeneral)):
		// A handler knows some words of an output that reads like a fault of the code.
		lines := j.ended()
		if len(lines) == 0 {
			lines = j.ends()
		}
		if g := byWords(lines); g != nil && g.category == CategoryCode && g.chance >= deniesChance {
			return g
		}
	}
	return nil
}

// names reports whether a match is about what ended the program: a match of a dominator in the line of the exception, any
// match in the message of an exception of C++, in what the exception follows from, or in what a runtime shows of a call of
// the system. No other words of the output say as much.
func (j *judgement) names(m *match) bool {
	if m.hit != nil && bySystem().MatchString(m.hit.text) {
		return true
	}
	threw := j.threw()
	if threw == nil || m.hit == nil {
		return false
	}
	own := m.hit.stream == threw.stream && (m.hit.line == threw.line && m.rule.h.Dominates || m.hit.line == threw.line+1 && strings.HasPrefix(threw.text, cppEnd))
	return own || threw.follows(m.hit)
}

// sure returns a guess about what ended a test if it is sure enough that the environment did.
func sure(g *guess) *guess {
	if g == nil || g.category == CategoryCode || g.chance < testsChance {
		return nil
	}
	return g
}

// guarded reports whether a guard knows what ended a failed test.
func (j *judgement) guarded() bool {
	return slices.ContainsFunc(j.order, func(m *match) bool {
		return slices.ContainsFunc(append(m.others, *orZero(m.hit)), func(h hit) bool { return h.of != nil || j.inReport(h) })
	})
}

// ends returns the last lines of both streams. If npm alone speaks, what it says is the failure; else it only tells that
// the program that it ran has failed.
func (j *judgement) ends() []hit {
	if out := j.lastLines(false); len(out) > 0 {
		return out
	}
	for _, o := range []*output{j.stderr, j.stdout} {
		if slices.ContainsFunc(o.tail, npmCode().MatchString) {
			return j.lastLines(true)
		}
	}
	return nil
}

func (j *judgement) lastLines(npm bool) (out []hit) {
	for _, o := range []*output{j.stderr, j.stdout} {
		n := len(out)
		for i := len(o.tail) - 1; i >= 0 && len(out)-n < guessedLines; i-- {
			l := o.tail[i]
			quoted := diffHead().MatchString(l) || inDiff(o.tail[max(0, i-lookFirst):i], l)
			frames := framing().MatchString(l) && !(npm && strings.HasPrefix(l, "npm ") && !npmLog().MatchString(l))
			if strings.TrimSpace(l) != "" && !quoted && !frames && !died().MatchString(l) && !foreignPlace(l) {
				n := o.lines - int64(len(o.tail)-1-i)
				out = append(out, hit{stream: o.name, line: n, origin: o.src.Line(n), text: l})
			}
		}
	}
	return out
}

// npmCode matches the line with which npm tells the code of a failure of its own, and npmLog what says nothing of it.
var (
	npmCode = pattern.Lazy(`^npm (?:ERR!|error) code E(?:[A-KM-Z]|L[A-HJ-Z])`)
	npmLog  = pattern.Lazy(`^npm (?:ERR!|error) (?:A complete log|errno|path|\s*/)`)
)

// foreignPlace reports whether a line is a diagnostic about a file that is not the project's.
func foreignPlace(l string) bool {
	m := diagnosed().FindStringSubmatch(l)
	if m == nil {
		m = scriptPlace().FindStringSubmatch(l)
	}
	return m != nil && foreign(strings.Join(m[1:], ""))
}

// scriptPlace matches how a shell names the line of a script.
var scriptPlace = pattern.Lazy(`^(/\S+): (?:line )?\d+: `)

// ended returns what ended the failed tests, and nothing if a check of a test failed.
func (j *judgement) ended() (out []hit) {
	for _, f := range j.failures {
		if f.Asserted {
			return nil
		}
		for _, s := range f.Says {
			n := f.first + int64(s.Line)
			o := j.stdout
			if f.stream == onStderr {
				o = j.stderr
			}
			out = append(out, hit{stream: f.stream, line: n, origin: o.src.Line(n), text: s.Text, of: f})
		}
	}
	return out
}

// byWords asks the model. The chance of an infrastructure category is that of all of them together, because which of
// them it is matters less than that it is none of the code's.
func byWords(hits []hit) *guess {
	if len(hits) == 0 {
		return nil
	}
	lines := make([]string, len(hits))
	for i, h := range hits {
		lines[i] = withoutTopic(h.text)
	}
	m := wordsModel()
	if m.Known(lines) < leastKnown {
		return nil
	}
	scores := m.Score(lines)
	code := slices.Index(m.Labels(), CategoryCode)
	best := code
	g := &guess{category: CategoryCode, chance: scores[code]}
	if g.chance < codeChance {
		g.chance, scores[code] = 1-g.chance, 0
		if best = wordmodel.Best(scores); g.chance < codeChance || scores[best] < leastChance {
			return nil
		}
		g.category = m.Labels()[best]
	}
	g.line = hits[m.Telling(lines, best)]
	return g
}

// guessVerdict is the verdict of a guess.
func (j *judgement) guessVerdict(f Failure, g *guess) Failure {
	if o := j.of(g.line); g.line.of == nil {
		if i := int(g.line.line-o.lines) + len(o.tail) - 1; i >= 0 && i < len(o.tail) {
			g.line = o.at(i) // with its place in the code, which only this line needs
		}
	}
	if g.category == CategoryCode {
		return j.ownVerdict(f, &fault{hit: g.line, why: "no rule knows it, and it reads like a fault of the code"})
	}
	f.Category, f.Persistence, f.Weak = g.category, "unknown", true // it may end by itself or not
	about := g.category
	if c, ok := j.c.cat.Category(g.category); ok {
		f.Area, f.Infra, about = c.Area, c.Infra, lower(c.Label)
	}
	f.Confidence = min(maxGuessed, g.chance/2)
	f.Why = fmt.Sprintf("no rule knows it; by its words (line %d of %s) it is most likely about this: %s, so everything is proposed at most", g.line.origin, g.line.stream, about)
	j.lead(&f, g.line)
	return f
}
