package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/superloop/superloop/schemas"
)

// loss is a part of an overlay that superloop left out because it is wrong.
//
// What a file adds can be left out: without it superloop knows less. What a file takes away cannot. A wrong entry that
// was to switch off, replace or change another one would leave that one as it was, and so its commands could run
// although the file forbids them. So a loss holds what it was to change: the entry keeps recognising failures, and an
// operator decides about its commands. If nobody can say what the lost part was to change, it holds the whole catalog.
type loss struct {
	file      string
	line      int
	kind      string     // the top-level key of the entry, or the kind of a name; "" if the whole file is lost
	id        string     // the id of the entry, which may be "", or the name
	node      *yaml.Node // the entry
	isName    bool
	forbids   bool // it may have restricted something that no id names
	entryless bool // it is no mapping, so nobody can say what it was to be
}

// what names the lost part for an operator.
func (l *loss) what() string {
	switch {
	case l.kind == "":
		return "the file"
	case l.isName:
		return "the name " + strconv.Quote(l.id)
	case l.id == "":
		return "this entry of " + l.kind
	}
	return "the " + strings.TrimSuffix(l.kind, "s") + " " + strconv.Quote(l.id)
}

// lose marks the entry to which a problem's pointer leads, so that the decoder skips it from now on. If the pointer
// leads to no entry, nobody can say what the file means, and the loss is the whole file.
func (doc *document) lose(pointer string) *loss {
	l := &loss{file: doc.origin.File, line: 1}
	tokens := schemas.Tokens(pointer)
	for n := len(tokens); n >= 2; n-- {
		for _, t := range doc.names {
			if at := schemas.Tokens(t.ptr); len(at) == n-1 && slices.Equal(at, tokens[:n-1]) {
				l.kind, l.id, l.isName = t.kind, tokens[n-1], true
				for i := 0; i < len(t.node.Content); i += 2 {
					if key := t.node.Content[i]; key.Value == l.id {
						doc.left[key], l.line, l.node = true, key.Line, key
					}
				}
				return l.orFile(doc)
			}
		}
	}
	if len(tokens) < 2 || doc.lists[tokens[0]] == nil {
		return l.orFile(doc)
	}
	list := doc.lists[tokens[0]].Content
	i, err := strconv.Atoi(tokens[1])
	if err != nil || i < 0 || i >= len(list) {
		return l.orFile(doc)
	}
	n := list[i]
	doc.left[n] = true
	l.kind, l.line, l.node, l.entryless = tokens[0], n.Line, n, n.Kind != yaml.MappingNode
	key := "id"
	if l.kind == "chains" {
		key = "category"
	}
	if l.id = scalarOf(n, key); l.id == "" {
		l.id = scalarOf(n, verbExtends)
	}
	l.forbids = l.kind == "handlers" && forbids(n, doc.layer)
	return l
}

// orFile makes the loss that of the whole file, unless it has an entry.
func (l *loss) orFile(doc *document) *loss {
	if l.node == nil {
		l.kind, l.id, l.isName, l.forbids = "", "", false, true
		doc.lost = true
	}
	return l
}

// forbids reports whether a new handler may be there to keep commands from running: it is a guard, dominates others,
// says that the code is wrong, or leaves everything to people.
func forbids(n *yaml.Node, layer Layer) bool {
	if layer == LayerGuard || child(n, "guard") != nil || child(n, "dominates") != nil || foldName(scalarOf(n, "category")) == "code_bug" {
		return true
	}
	options := child(n, "options")
	if options == nil || options.Kind != yaml.SequenceNode {
		return true
	}
	return !slices.ContainsFunc(options.Content, func(o *yaml.Node) bool {
		return slices.Contains(strategies, scalarOf(o, "strategy")) && scalarOf(o, "strategy") != string(Manual)
	})
}

// verbs reports whether the lost entry was to change another one.
func (l *loss) verbs() bool {
	return l.node != nil && !l.isName && slices.ContainsFunc([]string{verbExtends, verbReplace, verbDisabled}, func(v string) bool { return child(l.node, v) != nil })
}

// hold marks what the losses were to change, so that an operator decides about it, and returns for each loss what
// follows from it, in a few words.
func (b *builder) hold(losses []*loss) []string {
	effects := make([]string, len(losses))
	for i, l := range losses {
		why := fmt.Sprintf("%s:%d: %s is left out", l.file, l.line, l.what())
		effects[i] = l.what() + " is left out"
		ofLoss := func(o *loss) bool { return o != l && o.id == l.id && !o.verbs() && o.kind == l.kind }
		switch {
		case b.holdTarget(l, why):
			effects[i] += ", and an operator decides about what it was to change"
		case l.forbids || l.entryless || l.verbs() && !slices.ContainsFunc(losses, ofLoss):
			b.Held = why
			effects[i] += "; nobody can say what it forbids, so an operator decides about every command of the catalog"
		}
	}
	return effects
}

// holdTarget holds the existing entry that a lost one names. It returns false if there is none.
func (b *builder) holdTarget(l *loss, why string) bool {
	if l.id == "" {
		return false
	}
	if l.isName {
		table := b.Names.table(l.kind)
		if _, ok := (*table)[l.id]; !ok {
			return false
		}
		if b.Names.Origins == nil {
			b.Names.Origins = map[string]Origin{}
		}
		o, ok := b.Names.Origins[l.kind+"/"+l.id]
		if !ok {
			o = Origin{Source: SourceEmbedded, File: embeddedPackages}
		}
		o.Held = why
		b.Names.Origins[l.kind+"/"+l.id] = o
		return true
	}
	held := false
	switch l.kind {
	case "handlers":
		held = holdIn(b.Handlers, l.id, why)
		for i := range b.Recipes {
			held = holdIn(b.Recipes[i].OnFailure, l.id, why) || held
		}
	case "recipes":
		held = holdIn(b.Recipes, l.id, why)
		for i := range b.Recipes {
			for j := range b.Recipes[i].OnFailure {
				if b.Recipes[i].ID == l.id {
					b.Recipes[i].OnFailure[j].Origin.Held = why
				}
			}
		}
	case "projects":
		held = holdIn(b.Projects, l.id, why)
	case "chains":
		held = holdIn(b.Chains, l.id, why)
		for i := range b.Chains {
			if b.Chains[i].Category == l.id {
				b.Chains[i].Approaches = slices.Clone(b.Chains[i].Approaches)
				holdAll(b.Chains[i].Approaches, why)
			}
		}
	}
	return held
}

func holdIn[T any](list []T, id, why string) bool {
	v, ok := find(list, func(v *T) bool { return *idOf(v) == id })
	if ok {
		originOf(v).Held = why
	}
	return ok
}

func holdAll[T any](list []T, why string) {
	for i := range list {
		if o := originOf(&list[i]); o.Held == "" {
			o.Held = why
		}
	}
}

// holdEverything holds every entry, if the builder is held as a whole.
func (b *builder) holdEverything() {
	if b.Held == "" {
		return
	}
	holdAll(b.Handlers, b.Held)
	holdAll(b.Recipes, b.Held)
	holdAll(b.Projects, b.Held)
	for i := range b.Recipes {
		holdAll(b.Recipes[i].OnFailure, b.Held)
	}
	for i := range b.Chains {
		b.Chains[i].Approaches = slices.Clone(b.Chains[i].Approaches)
		holdAll(b.Chains[i].Approaches, b.Held)
	}
}
