package failures

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/superloop/superloop/internal/text"
)

// Output is a text that superloop showed to a diagnosing agent. The agent may quote evidence from it.
type Output struct {
	Source string
	Text   string
}

// These constants bound the answer of a diagnosing agent.
const (
	maxAnswer  = 64 << 10 // bytes of the answer
	maxSaid    = 0.9      // the highest confidence of an agent, since it cannot try out its claim
	leastText  = 12       // bytes of the shortest quote that counts as evidence
	maxCommand = 1000     // bytes of a proposed command
)

// answer is the answer of a diagnosing agent, with the keys of root-cause.json.
type answer struct {
	Type       CauseType         `json:"type"`
	RootCause  string            `json:"root_cause"`
	Location   string            `json:"location"`
	Evidence   []json.RawMessage `json:"evidence"`
	WhyChain   []string          `json:"why_chain"`
	Fix        json.RawMessage   `json:"fix"`
	Prevention json.RawMessage   `json:"prevention"`
	Confidence json.RawMessage   `json:"confidence"`
}

// Merge merges the answer of a diagnosing agent into an analysis by rules. The answer is a root-cause.json, or a text
// with one JSON object in it. Evidence counts only if it is a quote from the outputs or from the facts of the case.
// Merge rejects an answer without such evidence. Otherwise the analysis with the higher confidence stays, and Others
// names the other one. Problems say what was wrong with the answer. Nothing in the answer may run by itself: a command
// is a proposal, which the recovery policy judges.
func Merge(rc RootCause, data []byte, by string, outputs []Output, c Case) RootCause {
	a, err := parseAnswer(data)
	if err != nil {
		rc.Problems = append(rc.Problems, by+": "+clip(err.Error()))
		return rc
	}
	said := rc
	said.By, said.Rule, said.Type, said.Description, said.Problems = by, "", a.Type, clip(a.RootCause), nil
	said.Evidence, said.Prevention, said.Location, said.WhyChain, said.Weak = nil, nil, "", nil, false
	problem := func(format string, args ...any) {
		said.Problems = append(said.Problems, by+": "+clip(fmt.Sprintf(format, args...)))
	}
	texts := quotable(outputs, c)
	asked := 0
	for _, raw := range a.Evidence[:min(len(a.Evidence), 3*maxEvidence)] {
		asked++
		if q, err := quoteOf(raw); err != nil {
			problem("evidence that is no quote: it is neither a text nor an object with one")
		} else if !stands(q, texts) {
			problem("this is not in the output: %q", q.Text)
		} else {
			said.Evidence = append(said.Evidence, q)
		}
	}
	said.Evidence = bounded(said.Evidence)
	if len(said.Evidence) == 0 {
		problem("it gives no evidence that stands in the output: it is not believed")
		rc.Problems = append(rc.Problems, said.Problems...)
		return rc
	}
	said.Confidence = min(confidence(a.Confidence), maxSaid) * float64(len(said.Evidence)) / float64(max(asked, len(said.Evidence)))
	for _, w := range a.WhyChain[:min(len(a.WhyChain), maxWhys)] {
		said.WhyChain = append(said.WhyChain, clip(w))
	}
	if loc := strings.TrimSpace(a.Location); loc != "" && loc != "unknown" {
		if file, _, _ := strings.Cut(loc, ":"); mentioned(file, texts) {
			said.Location = clip(loc)
		} else {
			problem("nothing names the location %q", loc)
		}
	}
	said.Fix, err = fixOf(a.Fix, a.Type)
	if err != nil {
		problem("its fix: %v", err)
	}
	if said.Prevention, err = preventedOf(a.Prevention); err != nil {
		problem("its prevention: %v", err)
	}
	if said.Confidence <= rc.Confidence && !rc.Weak {
		rc.Problems = append(rc.Problems, said.Problems...)
		rc.Others = append(rc.Others, fmt.Sprintf("%s (%.1f, by %s): %s", said.Type, said.Confidence, by, said.Description))
		return rc
	}
	if rc.Type != CauseUnknown {
		said.Others = append([]string{fmt.Sprintf("%s (%.1f, by %s): %s", rc.Type, rc.Confidence, rc.By, rc.Description)}, rc.Others...)
	}
	said.Problems = append(slices.Clone(rc.Problems), said.Problems...)
	return said
}

func parseAnswer(data []byte) (answer, error) {
	var a answer
	if len(data) > maxAnswer {
		return a, fmt.Errorf("the answer has %d bytes, it may have %d", len(data), maxAnswer)
	}
	from, to := bytes.IndexByte(data, '{'), bytes.LastIndexByte(data, '}')
	if from < 0 || to < from {
		return a, errors.New("the answer holds no JSON object")
	}
	if err := text.Decode(data[from:to+1], &a); err != nil {
		return a, fmt.Errorf("reading the answer: %w", err)
	}
	if !slices.Contains([]CauseType{CauseCode, CauseConfig, CauseDependency, CauseInfrastructure, CauseUnknown}, a.Type) {
		return a, fmt.Errorf("type is %.80q; it may be code, config, dependency, infrastructure or unknown", a.Type)
	}
	if clip(a.RootCause) == "" {
		return a, errors.New("root_cause is empty")
	}
	return a, nil
}

// quoteOf decodes a quote, which may be an object or a string.
func quoteOf(raw json.RawMessage) (Quote, error) {
	var q struct {
		Quote
		Also string `json:"quote"`
	}
	if json.Unmarshal(raw, &q.Text) == nil {
		return q.Quote, nil
	}
	if err := text.Decode(raw, &q); err != nil {
		return Quote{}, err
	}
	return Quote{Source: clip(q.Source), File: clip(q.File), Line: max(0, q.Line), Text: cmp.Or(q.Text, q.Also)}, nil
}

// quotable returns the texts that evidence may be quoted from, after squeeze.
func quotable(outputs []Output, c Case) []Output {
	var out []Output
	for _, o := range outputs {
		out = append(out, Output{o.Source, squeeze(o.Text)})
	}
	for _, q := range c.Evidence {
		out = append(out, Output{q.Source, squeeze(q.Text)})
	}
	for _, ch := range c.Facts.Changes {
		out = append(out, Output{"environment", squeeze(ch.String())})
	}
	for _, co := range c.Facts.Commits {
		out = append(out, Output{"git", squeeze(co.SHA + " " + co.Subject + " " + strings.Join(co.Files, " "))})
	}
	return out
}

// squeeze makes texts comparable: it drops control characters and reduces white space to single spaces.
func squeeze(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// stands reports whether a quote is long enough to count as evidence and occurs in one of the texts.
func stands(q Quote, texts []Output) bool {
	text := squeeze(q.Text)
	if len(text) < leastText || strings.IndexFunc(text, unicode.IsLetter) < 0 {
		return false
	}
	return slices.ContainsFunc(texts, func(o Output) bool { return strings.Contains(o.Text, text) })
}

// mentioned reports whether one of the texts names a file, as a whole word. A full stop may follow the name.
func mentioned(file string, texts []Output) bool {
	file = strings.TrimPrefix(file, "./")
	if len(file) < 2 || strings.ContainsAny(file, " \n\t") {
		return false
	}
	whole, err := regexp.Compile(`(?:^|[^\w.-])` + regexp.QuoteMeta(file) + `(?:$|[^\w.-]|\.(?:$|[^\w.-]))`)
	return err == nil && slices.ContainsFunc(texts, func(o Output) bool { return whole.MatchString(o.Text) })
}

// confidence decodes a number or one of the words high and medium. The confidence is 0.3 if the value is neither.
func confidence(raw json.RawMessage) float64 {
	var v float64
	if json.Unmarshal(raw, &v) == nil && v >= 0 && v <= 1 {
		return v
	}
	var word string
	_ = json.Unmarshal(raw, &word) // a value that is not a string leaves word empty
	return cmp.Or(map[string]float64{"high": 0.9, "medium": 0.6}[strings.ToLower(word)], 0.3)
}

func fixOf(raw json.RawMessage, typ CauseType) (Fix, error) {
	var f Fix
	var note string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return Fix{Kind: FixNone}, nil
	case json.Unmarshal(raw, &note) == nil:
		f.Instruction = note
	default:
		if err := text.Decode(raw, &f); err != nil {
			return Fix{Kind: FixNone}, err
		}
	}
	f.Instruction = clip(f.Instruction)
	if len(f.Command) > maxCommand || strings.ContainsFunc(f.Command, unicode.IsControl) {
		return Fix{Kind: FixNone}, errors.New("its command is too long, or not one printable line")
	}
	if !slices.Contains([]string{FixEnvironment, FixCode, FixConfig, FixPerson, FixWait, FixNone}, f.Kind) {
		f.Kind = cmp.Or(map[CauseType]string{CauseCode: FixCode, CauseConfig: FixConfig}[typ], FixPerson)
		if f.Command != "" {
			f.Kind = FixEnvironment
		}
	}
	if f.Kind != FixEnvironment {
		f.Command = ""
	} else if f.Command == "" {
		f.Kind = FixPerson
	}
	return f, nil
}

// preventedOf decodes a check that superloop can make inside the repository, or a note.
func preventedOf(raw json.RawMessage) (*Prevented, error) {
	var note string
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if json.Unmarshal(raw, &note) == nil {
		return &Prevented{Kind: PromptNote, Note: clip(note)}, nil
	}
	var p Prevented
	if err := text.Decode(raw, &p); err != nil {
		return nil, err
	}
	p.Note = clip(p.Note)
	if p.Spec == nil || p.Kind == PromptNote {
		if p.Note == "" {
			return nil, errors.New("it says nothing")
		}
		return &Prevented{Kind: PromptNote, Note: p.Note}, nil
	}
	if p.Spec.Path != "" && !filepath.IsLocal(p.Spec.Path) {
		return nil, fmt.Errorf("path %q leaves the repository", p.Spec.Path)
	}
	if err := (Prevention{Kind: p.Kind, Spec: *p.Spec}).Valid(); err != nil {
		return nil, err
	}
	return &p, nil
}
