package catalog

import (
	"slices"
	"strconv"
)

// The sources of catalog entries.
const (
	SourceEmbedded   = "embedded"   // part of superloop
	SourceUser       = "user"       // the operator's own directory of configuration
	SourceRepository = "repository" // the supervised repository, which an agent may write: only an operator can start its commands
)

// Origin says where an entry comes from. If an overlay changed any part of an entry, the overlay is its origin.
type Origin struct {
	Source  string `json:"source"` // embedded, user, repository
	File    string `json:"file"`
	Line    int    `json:"line"`
	Pointer string `json:"pointer,omitempty"` // JSON pointer of the entry in the file: /handlers/3
	// Held says which wrong part of an overlay was to change the entry and was left out. While it is not "", an operator
	// decides about the entry's commands.
	Held string `json:"held,omitempty"`
}

// Foreign says why only an operator may start the commands of an entry with this origin, or returns "".
func (o Origin) Foreign() string {
	switch {
	case o.Source == SourceRepository:
		return "stands in the repository, where an agent can write"
	case o.Held != "":
		return "is held: " + o.Held
	}
	return ""
}

// maxRounds bounds the rounds in which overlay leaves out wrong entries, and what builds on them.
const maxRounds = 8

// overlay applies the documents of one directory. Files may refer to each other's entries in any order, so overlay
// lints them together. It leaves out the entries with errors and lints the rest again, until no entry has an error.
// unread are the problems of the files that could not be read. If there is neither a document nor an error, overlay
// returns base.
func overlay(base *builder, docs []*document, unread Problems) (*builder, Problems) {
	o := overlaying{problems: unread.warnings(), told: map[string]int{}}
	for _, p := range unread.Errors() {
		o.lose(&loss{file: p.File, line: max(p.Line, 1), forbids: !p.Empty}, p)
	}
	b := base
	for round := 0; len(docs) > 0; round++ {
		if round == maxRounds {
			for _, doc := range docs {
				o.leave(doc, Problem{File: doc.origin.File, Line: 1, Column: 1, Message: "too much of it builds on wrong entries; correct those first"})
			}
			b = base
			break
		}
		b = base.clone()
		for _, doc := range docs {
			b = o.apply(b, doc)
		}
		docs = slices.DeleteFunc(docs, func(d *document) bool { return d.lost })
		ps := lintDocuments(b.clone().finish(), docs)
		wrong := ps.Errors()
		if len(wrong) == 0 {
			o.problems = append(o.problems, ps...)
			break
		}
		for _, p := range wrong {
			for _, doc := range docs {
				if doc.origin.File == p.File {
					o.leave(doc, p)
				}
			}
		}
		docs = slices.DeleteFunc(docs, func(d *document) bool { return d.lost })
	}
	if len(o.losses) > 0 {
		if b == base {
			b = base.clone()
		}
		for i, effect := range b.hold(o.losses) {
			for _, p := range o.of[i] {
				p.Effect = effect
				o.problems = append(o.problems, p)
			}
		}
	}
	return b, o.problems.sorted()
}

// overlaying is the state of overlay: what is lost, and the problems of each loss.
type overlaying struct {
	problems Problems
	losses   []*loss
	of       []Problems     // by the index of losses
	told     map[string]int // by file: how many problems are in of
}

func (o *overlaying) lose(l *loss, p Problem) {
	p.ID = l.id
	i := slices.IndexFunc(o.losses, func(have *loss) bool { return have.file == l.file && have.node == l.node })
	if i < 0 {
		i = len(o.losses)
		o.losses, o.of = append(o.losses, l), append(o.of, nil)
	}
	if o.told[l.file]++; o.told[l.file] <= maxProblems {
		o.of[i] = append(o.of[i], p)
	}
}

// leave leaves out the entry of the document that a problem is about.
func (o *overlaying) leave(doc *document, p Problem) { o.lose(doc.lose(p.Pointer), p) }

// apply applies a document, without the entries that it cannot decode. A document with too many of them is lost.
func (o *overlaying) apply(b *builder, doc *document) *builder {
	for range maxRounds {
		next := b.clone()
		ps := next.apply(doc)
		if len(ps) == 0 {
			return next
		}
		for _, p := range ps {
			o.leave(doc, p)
		}
		if doc.lost {
			return b
		}
	}
	o.leave(doc, Problem{File: doc.origin.File, Line: 1, Column: 1, Message: "too many entries of it are wrong"})
	return b
}

// refuseHandler returns why an entry must not add or change a handler, or "". An agent may have written a file of the
// repository. So such a file cannot change the guards and dominators, which distinguish failures of the code from
// failures of the environment.
func refuseHandler(doc *document, h *Handler, e entry) string {
	switch {
	case h == nil && doc.layer == "":
		return "the new handler " + strconv.Quote(e.id) + " needs family: or layer: at the top of the file"
	case h == nil || doc.origin.Source != SourceRepository || h.Origin.Source == SourceRepository:
		return ""
	case h.Guard != GuardNone:
		return "a file of the repository cannot change a guard: put this into your own directory of configuration"
	case h.Dominates:
		return "a file of the repository cannot change a handler that dominates: put this into your own directory of configuration"
	}
	return ""
}
