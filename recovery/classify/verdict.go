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

// Where a failed command came from.
const (
	SourceRecovery = "recovery_command"
	SourceCommand  = "command"
)

// The categories that the classifier itself names. All others are the catalog's.
const (
	CategoryUnknown = "unknown"
	CategoryCode    = "code_bug"
)

// Exit is how a command ended. These are facts, known without its output.
type Exit struct {
	Code       int           // meaningless if Signal is given
	Signal     string        // "SIGKILL"; an exit code of 137 is not a signal
	TimedOut   bool          // its own time limit ended it
	OOM        bool          // the kernel killed it, or a child of it, for memory
	NotStarted bool          // no such program, or not executable
	Duration   time.Duration // from start to end
}

// OK reports whether nothing failed.
func (e Exit) OK() bool {
	return e.Code == 0 && e.Signal == "" && !e.TimedOut && !e.OOM && !e.NotStarted
}

// Input is one failed command. Nothing in it is changed.
type Input struct {
	Source  string
	Command string // what was run, a shell's text: it is split for the programs that it calls
	Dir     string // absolute; "" is unknown
	Tool    string // a recipe's id, where an install was attempted; else it is worked out of the command, never of the output
	Exit    Exit
	// Stdout and Stderr are read to their ends; nil is empty. With Merged, Stdout carries both.
	Stdout, Stderr io.Reader
	Merged         bool
	Probes         Prober // nil: none are made
}

// Failure is the verdict on one failed command.
type Failure struct {
	Source string `json:"source,omitempty"`
	// Category is of the catalog's closed list, Area that of a proposal, Persistence says whether it goes by itself,
	// Severity is blocking or degraded.
	Category    string `json:"category"`
	Area        string `json:"area,omitempty"`
	Persistence string `json:"persistence"`
	Severity    string `json:"severity"`
	Infra       bool   `json:"infra"` // the environment is to blame
	Code        bool   `json:"code"`  // only a change of the code can fix it
	Weak        bool   `json:"weak"`  // the code may be to blame as well: propose at most
	// Handler is the primary match's id, "" if nothing matched; Layer its layer, and Confidence 0 to 1 how sure the
	// verdict is.
	Handler    string        `json:"handler,omitempty"`
	Layer      catalog.Layer `json:"layer,omitempty"`
	Confidence float64       `json:"confidence"`

	Matches  []Match            `json:"-"` // all, in order of the cascade; the first is the primary
	Evidence []Evidence         `json:"evidence,omitempty"`
	Captures map[string]string  `json:"captures,omitempty"` // of the primary
	Findings map[string]Finding `json:"findings,omitempty"` // the probes' answers, by name

	Signature string `json:"signature"` // the same for the same failure in another run
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

// Match is one handler that recognised the failure.
type Match struct {
	Handler  *catalog.Handler
	Stream   string // stdout, stderr; "" if a fact alone matched
	Line     int64  // from 1; 0 if a fact alone matched
	Text     string // the line, cleaned
	Captures map[string]string
	Vetoed   bool // true: a strong guard or a probe speaks against it, its options must not be offered
}

// Evidence is a line that speaks for the verdict.
type Evidence struct {
	Stream   string `json:"stream"`
	Line     int64  `json:"line"`
	Text     string `json:"text"` // at most 400 bytes, printable, secrets removed
	File     string `json:"file,omitempty"`
	FileLine int    `json:"file_line,omitempty"`
}

// Answer is what a probe found out.
type Answer string

// The answers. Unknown never counts as either.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Finding is the answer of one probe.
type Finding struct {
	Name   string `json:"name"`
	Holds  Answer `json:"holds"`
	Value  string `json:"value,omitempty"`  // a machine's word: a path, a pid, a package
	Detail string `json:"detail,omitempty"` // an operator's sentence
}

// Prober looks at the system, cheaply and without changing it. What it cannot find out is Unknown, never an error.
type Prober interface {
	Probe(ctx context.Context, name string, captures map[string]string, in *Input) Finding
}

// verdict makes the Failure of what was ranked.
func (j *judgement) verdict() Failure {
	in := j.in
	f := Failure{
		Source: in.Source, Exit: in.Exit, Command: in.Command, Dir: in.Dir, Tool: in.Tool, Method: j.method,
		Severity: "blocking", Findings: j.findings,
		Bytes: j.stdout.bytes + j.stderr.bytes, Lines: j.stdout.lines + j.stderr.lines,
		Incomplete: j.stdout.broken || j.stderr.broken,
	}
	if len(j.order) == 0 {
		f.Category, f.Persistence = CategoryUnknown, "unknown"
		f.Evidence = j.evidence()
		if own := j.ownFault(); own != nil {
			return j.ownVerdict(f, own)
		}
		f.Why = fmt.Sprintf("it %s and nothing known stands in its output", ended(in.Exit))
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
			x.Stream, x.Line, x.Text = m.hit.stream.String(), m.hit.line, j.c.printable(m.hit.text)
		}
		f.Matches = append(f.Matches, x)
	}
	f.Signature = j.signature(f)
	f.Why = j.why(f, p)
	return f
}

// ownVerdict makes the Failure of a fault that only the program itself tells.
func (j *judgement) ownVerdict(f Failure, own *fault) Failure {
	f.Category, f.Area, f.Persistence = CategoryCode, "code", "code"
	f.Code, f.Confidence = true, ownConfidence
	f.Why = own.why
	if own.hit.text == "" {
		f.Signature = Signature(f.Category, "", ended(j.in.Exit))
		return f
	}
	f.Why += fmt.Sprintf(" (line %d of %s)", own.hit.line, own.hit.stream)
	first := Evidence{Stream: own.hit.stream.String(), Line: own.hit.line, Text: j.c.printable(own.hit.text), File: own.hit.file, FileLine: own.hit.fileLine}
	rest := slices.DeleteFunc(f.Evidence, func(e Evidence) bool { return e.Stream == first.Stream && e.Line == first.Line })
	f.Evidence = append([]Evidence{first}, rest...)
	f.Signature = Signature(f.Category, "", own.hit.text)
	return f
}

// ownConfidence is that of a verdict without a handler: no text that is known to be the code's, only nothing of the
// environment.
const ownConfidence = 0.4

// confidence of the primary match. Synonyms of one handler never count against one another.
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
	return min(0.99, max(0.05, float64(int(c*100+0.5))/100))
}

// signature names the failure: by the names of what failed for the code's, by the primary line for the environment's.
func (j *judgement) signature(f Failure) string {
	if f.Code && len(j.order) > 0 && j.order[0].rule.h.Guard != catalog.GuardNone {
		// A name that both streams have counts once: Signature sorts and compacts them.
		if parts := slices.AppendSeq(slices.Collect(maps.Keys(j.stdout.named)), maps.Keys(j.stderr.named)); len(parts) > 0 {
			// Which guard came first depends on what else was printed; the failed tests do not.
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

// why is the verdict in one sentence.
func (j *judgement) why(f Failure, p *match) string {
	h := p.rule.h
	what := cmp.Or(h.Label, h.ID)
	if p.hit != nil {
		what += fmt.Sprintf(" (line %d of %s)", p.hit.line, p.hit.stream)
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
	case j.weakened && j.weak != nil:
		what += ", but " + lower(cmp.Or(j.weak.rule.h.Label, j.weak.rule.h.ID)) + " as well, so it is proposed at most"
	case j.weakened && !p.voice.own():
		what += ", but a test says so, not the tool, so it is proposed at most"
	case j.weakened:
		what += ", but nobody could look whether it is so, so it is proposed at most"
	case j.confirmed:
		what += ", and a look at the system agrees"
	}
	return what
}

// lower makes a label fit for the middle of a sentence.
func lower(s string) string {
	if len(s) > 1 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'a' && s[1] <= 'z' {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}

// ended says how a command ended, without what changes from run to run.
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
