package classify

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/superloop/superloop/recovery/catalog"
)

// The sources of a failed command: a test command of the loop, a recovery command of the loop, or any other command.
const (
	SourceTests    = "test_command"
	SourceRecovery = "recovery_command"
	SourceCommand  = "command"
)

// The categories that the classifier itself assigns. All others come from the catalog.
const (
	CategoryUnknown = "unknown"
	CategoryCode    = "code_bug"
)

// Exit holds the facts about a command's end that are known without its output.
type Exit struct {
	Code       int           // the exit code; meaningless if Signal is given
	Signal     string        // the signal that ended the command, such as "SIGKILL"; not set for an exit code such as 137
	TimedOut   bool          // the command's time limit ended it
	OOM        bool          // the kernel killed the command or a child of it because memory ran out
	NotStarted bool          // the program does not exist or is not executable
	Duration   time.Duration // from start to end
}

// OK reports whether the command succeeded.
func (e Exit) OK() bool {
	return e.Code == 0 && e.Signal == "" && !e.TimedOut && !e.OOM && !e.NotStarted
}

// Input describes one failed command. Classify does not change it, but reads its streams.
type Input struct {
	Source  string
	Command string // the shell text of the command; Classify finds in it the programs that the command calls
	Dir     string // absolute path of the directory in which the command ran; "" is unknown
	Tool    string // the id of the recipe if the command was to install a tool; "": Classify derives the tool from Command
	Exit    Exit
	// Stdout and Stderr are read to their ends; nil means no output. With Merged, Stdout carries both streams.
	Stdout, Stderr io.Reader
	Merged         bool
	Probes         Prober // makes the probes; nil: Classify makes no probe
}

// Failure is the verdict on one failed command.
type Failure struct {
	Source string `json:"source,omitempty"`
	// Category is an id of the catalog's closed list, CategoryUnknown or CategoryCode. Area is the area of a proposal,
	// such as dependency. Persistence says whether the failure ends without a remedy. Severity is blocking or degraded.
	Category    string `json:"category"`
	Area        string `json:"area,omitempty"`
	Persistence string `json:"persistence"`
	Severity    string `json:"severity"`
	Infra       bool   `json:"infra"` // the environment is to blame
	Code        bool   `json:"code"`  // only a change of the code can fix the failure
	Weak        bool   `json:"weak"`  // the code may be to blame as well: a remedy is proposed at most, never run without an operator
	// Handler is the id of the primary match's handler, "" if no handler matched. Layer is its layer. Confidence says
	// from 0 to 1 how sure the verdict is.
	Handler    string        `json:"handler,omitempty"`
	Layer      catalog.Layer `json:"layer,omitempty"`
	Confidence float64       `json:"confidence"`

	Matches  []Match            `json:"-"` // all matches in their order, vetoed ones last; the first is the primary
	Evidence []Evidence         `json:"evidence,omitempty"`
	Captures map[string]string  `json:"captures,omitempty"` // the captures of the primary match
	Findings map[string]Finding `json:"findings,omitempty"` // the probes' answers, by name

	Signature string `json:"signature"` // a name of the failure, the same in every run, see Signature
	Why       string `json:"why"`       // one sentence for an operator

	Exit    Exit     `json:"exit"`
	Command string   `json:"command,omitempty"`
	Argv    []string `json:"argv,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	Tool    string   `json:"tool,omitempty"`
	Method  string   `json:"method,omitempty"`

	Bytes      int64         `json:"bytes"`
	Lines      int64         `json:"lines"`
	Incomplete bool          `json:"incomplete,omitempty"` // a budget was spent, or a stream broke off: something may have been missed
	Took       time.Duration `json:"took"`
}

// Guessed reports whether no rule knows the failure, and its words alone say what it is about.
func (f Failure) Guessed() bool { return f.Handler == "" && f.Weak }

// Match is one handler that recognises the failure.
type Match struct {
	Handler  *catalog.Handler
	Stream   string // stdout or stderr; "" if the handler has matched without a line
	Line     int64  // from 1; 0 if the handler has matched without a line
	Text     string // the cleaned line
	Captures map[string]string
	Vetoed   bool // true: a strong guard or a probe contradicts the match, so its options must not be offered
}

// Evidence is a line of output that supports the verdict.
type Evidence struct {
	Stream   string `json:"stream"`
	Line     int64  `json:"line"`
	Text     string `json:"text"` // at most 400 bytes, printable, secrets removed
	File     string `json:"file,omitempty"`
	FileLine int    `json:"file_line,omitempty"`
}

// Answer is the answer of a probe.
type Answer string

// The answers of a probe. Unknown counts neither as Yes nor as No.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Finding is the result of one probe.
type Finding struct {
	Name   string `json:"name"`
	Holds  Answer `json:"holds"`
	Value  string `json:"value,omitempty"`  // a value for programs: a path, a pid, the state of a package
	Detail string `json:"detail,omitempty"` // a sentence for an operator
}

// Prober makes probes: it looks at the system, cheaply and without changing it. A probe that cannot find its answer
// returns Unknown, never an error.
type Prober interface {
	Probe(ctx context.Context, name string, captures map[string]string, in *Input) Finding
}

// verdict makes the Failure from the ranked matches.
func (j *judgement) verdict() Failure {
	in := j.in
	f := Failure{
		Source: in.Source, Exit: in.Exit, Command: in.Command, Dir: in.Dir, Tool: in.Tool, Method: j.method,
		Severity: "blocking", Findings: j.findings,
		Bytes: j.stdout.bytes + j.stderr.bytes, Lines: j.stdout.lines + j.stderr.lines,
		Incomplete: j.stdout.broken || j.stderr.broken,
	}
	if g := j.guessed(); g != nil {
		f.Evidence = j.evidence()
		return j.guessVerdict(f, g)
	}
	if len(j.order) == 0 {
		f.Category, f.Persistence = CategoryUnknown, "unknown"
		f.Evidence = j.evidence()
		if own := j.ownFault(); own != nil {
			return j.ownVerdict(f, own)
		}
		f.Why = fmt.Sprintf("it %s and nothing known stands in its output", ended(in.Exit))
		if f.Incomplete {
			f.Why = fmt.Sprintf("it %s and nothing known stands in what was seen of its output: a part of it was lost", ended(in.Exit))
		}
		if j.silent() {
			f.Why = fmt.Sprintf("it %s without a word of output", ended(in.Exit))
		}
		f.Signature = j.signature(f)
		return f
	}
	p := j.order[0]
	h := p.rule.h
	f.Handler, f.Layer, f.Captures = h.ID, h.Layer, p.captures
	f.Category = h.Category
	f.Code = h.Guard != catalog.GuardNone || j.undeclared
	if f.Code {
		f.Category = CategoryCode
	}
	f.Weak = !f.Code && j.weakened
	f.Persistence = "unknown"
	if c, ok := j.c.cat.Category(f.Category); ok {
		f.Area, f.Persistence, f.Infra = c.Area, c.Persistence, c.Infra
	}
	if f.Code {
		f.Area, f.Persistence, f.Infra = "code", "code", false
	} else if h.Persistence != "" {
		f.Persistence = h.Persistence
	}
	f.Confidence = j.confidence(p)
	f.Evidence = j.evidence()
	for _, m := range append(slices.Clone(j.order), j.vetoed...) {
		x := Match{Handler: m.rule.h, Captures: m.captures, Vetoed: slices.Contains(j.vetoed, m) || m.rule.h.Guard == catalog.GuardNone && f.Code}
		if m.hit != nil {
			x.Stream, x.Line, x.Text = m.hit.stream.String(), m.hit.origin, j.c.printable(m.hit.text)
		}
		f.Matches = append(f.Matches, x)
	}
	f.Signature = j.signature(f)
	f.Why = j.why(f, p)
	return f
}

// ownVerdict makes the Failure for a fault of a program of the project that no handler matches.
func (j *judgement) ownVerdict(f Failure, own *fault) Failure {
	f.Category, f.Area, f.Persistence = CategoryCode, "code", "code"
	f.Code, f.Confidence = true, ownConfidence
	f.Why = own.why
	if own.hit.text == "" {
		f.Signature = Signature(f.Category, "", ended(j.in.Exit))
		return f
	}
	f.Why += fmt.Sprintf(" (line %d of %s)", own.hit.origin, own.hit.stream)
	j.lead(&f, own.hit)
	return f
}

// lead makes a line the first of the evidence, and the failure's signature follows from it.
func (j *judgement) lead(f *Failure, h hit) {
	first := Evidence{Stream: h.stream.String(), Line: h.origin, Text: j.c.printable(h.text), File: h.file, FileLine: h.fileLine}
	rest := slices.DeleteFunc(f.Evidence, func(e Evidence) bool { return e.Stream == first.Stream && e.Line == first.Line })
	f.Evidence = append([]Evidence{first}, rest...)
	f.Signature = Signature(f.Category, "", h.text)
}

// ownConfidence is the confidence of ownVerdict. It is low, because no handler confirms that the code is to blame. The
// verdict rests on an output that does not mention the environment.
const ownConfidence = 0.4

// maxRefuted bounds the confidence of a verdict that a look at the system contradicts.
const maxRefuted = 0.3

// confidence returns the confidence of the primary match, from 0.05 to 0.99. It does not depend on how many patterns of
// a handler match.
func (j *judgement) confidence(p *match) float64 {
	h := p.rule.h
	patterns := len(p.rule.any)+len(p.rule.all) > 0
	c := h.Confidence
	switch {
	case c > 0:
	case h.Guard == catalog.GuardStrong:
		c = 0.9
	case h.Guard == catalog.GuardWeak:
		c = 0.6
	case j.confirmed, p.facts && patterns, len(h.Match.Facts) > 0:
		c = 0.9
	case !patterns:
		c = 0.4
	case h.Layer == catalog.LayerInfra && !h.Dominates, h.Layer == catalog.LayerBootstrap:
		c = 0.6
	default:
		c = 0.8
	}
	if slices.ContainsFunc(j.order[1:], func(m *match) bool { return m.rule.h.Layer != h.Layer && m.rule.h.Category == h.Category }) {
		c += 0.05
	}
	if j.weakened && h.Guard == catalog.GuardNone {
		c -= 0.2
	}
	if p.unsure {
		c -= 0.1
	}
	if p.refuted != "" {
		c = min(c, maxRefuted)
	}
	return min(0.99, max(0.05, float64(int(c*100+0.5))/100))
}

// signature returns the signature of the failure. It depends on the names of the failed tests and files if a guard
// matched, and else on the line of the primary match.
func (j *judgement) signature(f Failure) string {
	if f.Code && len(j.order) > 0 && j.order[0].rule.h.Guard != catalog.GuardNone {
		// A name that stands in both streams counts once: Signature sorts and compacts the names.
		if parts := slices.AppendSeq(slices.Collect(maps.Keys(j.stdout.named)), maps.Keys(j.stderr.named)); len(parts) > 0 {
			// The signature leaves out the guard, because the first guard depends on other output. The failed tests do
			// not.
			return Signature(f.Category, "", parts...)
		}
	}
	switch {
	case len(j.order) > 0 && j.order[0].hit != nil:
		return Signature(f.Category, f.Handler, j.order[0].hit.text)
	case len(j.order) > 0 || len(f.Evidence) == 0:
		return Signature(f.Category, f.Handler, ended(j.in.Exit))
	}
	return Signature(f.Category, f.Handler, ended(j.in.Exit), f.Evidence[0].Text)
}

// why returns the verdict as one sentence for an operator.
func (j *judgement) why(f Failure, p *match) string {
	h := p.rule.h
	what := cmp.Or(h.Label, h.ID)
	if p.hit != nil {
		what += fmt.Sprintf(" (line %d of %s)", p.hit.origin, p.hit.stream)
	}
	switch {
	case h.Guard == catalog.GuardStrong:
		what += ": only a change of the code can fix it"
		if len(j.vetoed) > 0 {
			what += ", so " + j.vetoed[0].rule.h.ID + " does not count"
		}
	case h.Guard == catalog.GuardWeak:
		what += ", and nothing points at the environment"
	case j.undeclared && j.findings[ProbeDeclared].Value == "installed":
		what += ": " + j.findings[ProbeDeclared].Detail + ", so the import asks for a part that it does not have"
	case j.undeclared:
		what += ": " + cmp.Or(j.findings[ProbeDeclared].Detail, "the project does not declare it") + ", so the code or its manifest has to change"
	case p.refuted != "":
		what += ", but a look at the system contradicts it (" + p.refuted + "), so it is proposed at most"
	case j.weakened && j.weak != nil:
		what += ", but " + lower(cmp.Or(j.weak.rule.h.Label, j.weak.rule.h.ID)) + " as well, so it is proposed at most"
	case j.weakened && !p.voice.own():
		what += ", but a test says so, not the tool, so it is proposed at most"
	case j.weakened:
		what += ", but nobody could look whether it is so, so it is proposed at most"
	case j.confirmed:
		what += ", and a look at the system agrees"
		if d := j.findings[ProbeFreeSpace].Detail; d != "" && j.findings[ProbeFreeSpace].Holds == No {
			what += ": " + d
		}
	}
	return what
}

// lower makes the first letter of a label lower-case, for the middle of a sentence, unless an acronym begins the label.
func lower(s string) string {
	if len(s) > 1 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'a' && s[1] <= 'z' {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}

// ended describes how a command ended, without details that change from run to run.
func ended(e Exit) string {
	switch {
	case e.NotStarted:
		return "could not be started"
	case e.OOM:
		return "was killed for memory"
	case e.TimedOut:
		return "ran out of time"
	case e.Signal != "":
		return "was killed by " + e.Signal
	}
	return fmt.Sprintf("ended with exit code %d", e.Code)
}
