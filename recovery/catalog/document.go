package catalog

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is one file: its entries as they were written, and where they are to go. It is applied to a builder after
// it was read.
type document struct {
	origin Origin // of the file, without a line
	root   *yaml.Node
	family string
	layer  Layer // of new handlers; LayerMethod if there is a family

	lists map[string]*yaml.Node // by top-level key
	names []nameTable
}

type nameTable struct {
	kind, ptr string
	node      *yaml.Node
}

func listKeys() []string {
	return strings.Fields("handlers recipes projects chains categories managers")
}

func nameKinds() []string {
	return []string{NameGroup, NameLib, NameHeader, NamePkgConfig, NameCMake, NameSoname}
}

// readDocument takes a file apart at its top level.
func readDocument(origin Origin, data []byte) (*document, Problems) {
	root, ps := parseYAML(origin.File, data)
	if len(ps) > 0 {
		return nil, ps
	}
	doc := &document{origin: origin, root: root, lists: map[string]*yaml.Node{}}
	d := newDecoder(origin)
	known := slices.Concat([]string{"family", "layer"}, listKeys(), []string{"packages", "names"}, nameKinds())
	d.keys(root, "", func(key, val *yaml.Node) {
		ptr := join("", key.Value)
		switch {
		case d.verbs && key.Value == "categories":
			d.fail(key, ptr, "the list of categories is closed: a file cannot change it; use one of the known categories")
		case d.verbs && key.Value == "managers":
			d.fail(key, ptr, "the package managers are part of superloop: a file cannot change them; name packages in recipes")
		case key.Value == "family":
			d.value(val, reflect.ValueOf(&doc.family).Elem(), ptr)
		case key.Value == "layer":
			d.value(val, reflect.ValueOf(&doc.layer).Elem(), ptr)
			if l := doc.layer; l != LayerInfra && l != LayerBootstrap && l != LayerGuard {
				d.fail(val, ptr, "must be infra, bootstrap or guard, not %q; handlers of a method stand under family:, those of a tool in its recipe's on_failure", clip(string(l)))
			}
		case slices.Contains(listKeys(), key.Value):
			if val.Kind != yaml.SequenceNode {
				d.fail(val, ptr, "must be a list, not %s", kindName(val))
				return
			}
			doc.lists[key.Value] = val
		case key.Value == "packages", key.Value == "names":
			d.keys(val, ptr, func(kind, table *yaml.Node) {
				if !slices.Contains(nameKinds(), kind.Value) {
					d.unknown(kind, join(ptr, kind.Value), "Names", nameKinds())
					return
				}
				doc.names = append(doc.names, nameTable{kind.Value, join(ptr, kind.Value), table})
			})
		case slices.Contains(nameKinds(), key.Value):
			doc.names = append(doc.names, nameTable{key.Value, ptr, val})
		default:
			d.unknown(key, ptr, "File", known)
		}
	})
	if doc.family != "" {
		if doc.layer != "" {
			d.fail(root, "", "has both family: and layer: choose one")
		}
		doc.layer = LayerMethod
	}
	return doc, d.problems
}

// place is the origin of an entry of the document.
func (doc *document) place(n *yaml.Node, ptr string) Origin {
	o := doc.origin
	o.Line, o.Pointer = n.Line, ptr
	return o
}

// locate gives the line and column of a place in the document. A token "@id" stands for the element of a list with
// that id. Where the place itself was not written in this file, its nearest parent that was is given.
func (doc *document) locate(tokens []string) (ptr string, line, col int) {
	n := doc.root
	for _, token := range tokens {
		next, i := child(n, token), 0
		if n.Kind == yaml.SequenceNode {
			next, i = element(n, token)
			token = strconv.Itoa(i)
		}
		if next == nil {
			break
		}
		n, ptr = next, join(ptr, token)
	}
	return ptr, n.Line, n.Column
}

// element is the element of a list that a token means, as locate takes it, and its number; nil if there is none.
func element(list *yaml.Node, token string) (*yaml.Node, int) {
	i, err := strconv.Atoi(token)
	if id, byID := strings.CutPrefix(token, "@"); byID {
		err = nil
		i = slices.IndexFunc(list.Content, func(c *yaml.Node) bool { return scalarOf(c, "id") == id || scalarOf(c, verbExtends) == id })
	}
	if err != nil || i < 0 || i >= len(list.Content) {
		return nil, 0
	}
	return list.Content[i], i
}
