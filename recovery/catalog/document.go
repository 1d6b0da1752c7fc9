package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/schemas"
)

// document is one parsed file: the nodes of its entries, and the family and layer of its new handlers.
type document struct {
	origin Origin // the origin of the file, without a line
	root   *yaml.Node
	family string
	layer  Layer // the layer of new handlers; LayerMethod if the file has a family

	lists map[string]*yaml.Node // by top-level key
	names []nameTable
	left  map[*yaml.Node]bool // the wrong entries, which the decoder skips: elements of lists, and keys of tables of names
	lost  bool                // the whole file is left out
}

type nameTable struct {
	kind, ptr string
	node      *yaml.Node
}

var (
	listKeys  = []string{"handlers", "recipes", "projects", "chains", "categories", "managers"}
	nameKinds = []string{NameGroup, NameLib, NameHeader, NamePkgConfig, NameCMake, NameSoname, NameProgram}
)

// readDocument parses a file and splits it by its top-level keys.
func readDocument(origin Origin, data []byte) (*document, Problems) {
	root, ps := parseYAML(origin.File, data)
	if len(ps) > 0 {
		return nil, ps
	}
	doc := &document{origin: origin, root: root, lists: map[string]*yaml.Node{}, left: map[*yaml.Node]bool{}}
	d := newDecoder(origin)
	known := slices.Concat([]string{"family", "layer"}, listKeys, []string{"packages", "names"}, nameKinds)
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
		case slices.Contains(listKeys, key.Value):
			if val.Kind != yaml.SequenceNode {
				d.fail(val, ptr, "must be a list, not %s", kindName(val))
				return
			}
			doc.lists[key.Value] = val
		case key.Value == "packages", key.Value == "names":
			d.keys(val, ptr, func(kind, table *yaml.Node) {
				if !slices.Contains(nameKinds, kind.Value) {
					d.unknown(kind, join(ptr, kind.Value), "Names", nameKinds)
					return
				}
				doc.names = append(doc.names, nameTable{kind.Value, join(ptr, kind.Value), table})
			})
		case slices.Contains(nameKinds, key.Value):
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

// locate returns the JSON pointer, line and column of a place in the document. A token "@id" stands for the element of
// a list with that id. If the file does not contain the place, locate returns the nearest parent that it contains.
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

// element returns the element of a list for a token of locate, and its number. It returns nil if there is none.
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

// The verbs of an overlay's entries.
const (
	verbExtends  = "extends"
	verbReplace  = "replace"
	verbDisabled = "disabled"
)

// entry holds the id and the verbs of an entry in a file, which the decoder reads before the fields. The verbs say how
// the entry changes the existing entry with the same id.
type entry struct {
	id                         string
	extends, replace, disabled bool
	read                       []string // the keys of the verbs, which are no fields
}

// changes reports whether the entry has a verb, and so needs an existing entry to change.
func (e entry) changes() bool { return e.extends || e.replace || e.disabled }

// entries calls each for every valid entry of a list. An id must not stand in the list twice, and an entry with a verb
// must name one of the known ids. Every other entry is a problem.
func (d *decoder) entries(list *yaml.Node, ptr, key, what string, known []string, each func(n *yaml.Node, ptr string, e entry)) {
	seen := map[string]bool{}
	for i, n := range list.Content {
		if d.full() {
			return
		}
		if d.left[n] {
			continue
		}
		here := join(ptr, strconv.Itoa(i))
		e := d.entry(n, here, key)
		switch {
		case e.id == "":
			continue
		case seen[e.id]:
			d.fail(n, here, "the %s %q stands in this file twice", what, e.id)
		case e.changes() && !slices.Contains(known, e.id):
			near := schemas.Nearest(e.id, known)
			d.failNear(n, here, near, "there is no %s %q to change%s", what, e.id, meant(near))
		default:
			each(n, here, e)
		}
		seen[e.id] = true
	}
}

// entry reads the id of n, which stands under key, and the verbs. If they are wrong, it reports a problem and returns
// an entry without an id.
func (d *decoder) entry(n *yaml.Node, ptr, key string) entry {
	if n.Kind != yaml.MappingNode {
		d.fail(n, ptr, "must be a mapping (key: value), not %s", kindName(n))
		return entry{}
	}
	e := entry{id: scalarOf(n, key)}
	if !d.verbs {
		if e.id == "" {
			d.fail(n, ptr, "has no %s", key)
		}
		return e
	}
	before := len(d.problems)
	e.read = []string{verbExtends, verbReplace, verbDisabled}
	e.replace, e.disabled = d.flag(n, ptr, verbReplace), d.flag(n, ptr, verbDisabled)
	if base := scalarOf(n, verbExtends); base != "" {
		if e.id != "" && e.id != base {
			d.fail(n, ptr, "has the %s %q and extends %q: an entry keeps its %s; leave %s out, or write a new entry without extends",
				key, e.id, base, key, key)
		}
		e.id, e.extends = base, true
	} else if child(n, verbExtends) != nil {
		d.fail(n, join(ptr, verbExtends), "must be the %s of the entry to change", key)
	}
	switch {
	case e.id == "":
		d.fail(n, ptr, "has no %s (a new entry), and no extends (an entry to change)", key)
	case e.replace && (e.extends || e.disabled), e.extends && e.disabled:
		d.fail(n, ptr, "says two of extends, replace and disabled: choose one")
	}
	if len(d.problems) > before {
		return entry{}
	}
	return e
}

func (d *decoder) flag(n *yaml.Node, ptr, key string) bool {
	c := child(n, key)
	if c != nil && c.ShortTag() != "!!bool" {
		d.fail(c, join(ptr, key), "must be true or false, not %s", kindName(c))
		return false
	}
	return c != nil && strings.EqualFold(c.Value, "true")
}

// moved returns a hint what to write instead of a key of an older format or of another program, or "".
func moved(typ, key string) string {
	name := typ + "." + key
	for _, m := range []struct{ keys, hint string }{
		{"Handler.strategy", "give it as options: [{id: ..., label: ..., strategy: ..., recommended: true}]"},
		{"Handler.dep Handler.packages Handler.commands Handler.modifier Handler.instructions Handler.switch_to Handler.method",
			"it belongs to an option: options: [{id: ..., strategy: ..., " + key + ": ...}]"},
		{"Handler.failure_id Approach.strategy Approach.name", "write id"},
		{"Handler.pattern Handler.patterns", "write match: {any: [...]}"},
		{"Handler.not_pattern", "write match: {not: [...]}"},
		{"Handler.exit_code Handler.exit_codes", "write match: {exit_codes: [...]}"},
		{"Handler.streams Handler.signals Handler.commands_like", "write match: {" + key + ": [...]}"},
		{"Handler.detect_fn", "write probes: [...]"},
		{"Handler.example_stderr", "write examples: [{command: ..., exit_code: ..., stderr: ...}]"},
		{"Handler.methods Handler.family", "write family: once, at the top of the file"},
		{"Handler.layer", "write layer: once, at the top of the file"},
		{"Option.risk_level", "write risk"},
		{"Option.retry Option.wait_seconds Option.args Option.env", "write modifier: {wait_seconds: [...], args: [...], env: {...}}"},
		{"Option.command", "write commands: [[program, argument], ...]"},
		{"Recipe.cli_verify_args Recipe.verify_command", "write verify: {command: ...}"},
		{"Recipe.method_families", "write install_via"},
		{"Recipe.requires_binaries", `write requires: {binaries: {"*": [...]}}`},
		{"Approach.estimatedIterations", "write est_iterations"},
		{"Approach.steps", "write option: {strategy: ..., commands: [...]}"},
	} {
		if slices.Contains(strings.Fields(m.keys), name) {
			return m.hint
		}
	}
	return ""
}

func (d *decoder) unknown(key *yaml.Node, ptr, typ string, known []string) {
	if hint := moved(typ, key.Value); hint != "" {
		d.fail(key, ptr, "%q does not stand here any more: %s", clip(key.Value), hint)
		return
	}
	near, others := schemas.Nearest(key.Value, known), ""
	if near == "" {
		others = "; known are " + strings.Join(known, ", ")
	}
	d.failNear(key, ptr, near, "unknown key %q%s%s", clip(key.Value), meant(near), others)
}

// maxDepth bounds the nesting of a file. The deepest entry needs ten levels.
const maxDepth = 40

// parseYAML reads one document. It refuses everything that two YAML readers may understand differently: anchors and
// aliases, tags, merge keys, a second document, bytes that are not UTF-8. If there is a problem, it returns a nil node.
func parseYAML(file string, data []byte) (*yaml.Node, Problems) {
	fail := func(line, col int, format string, args ...any) (*yaml.Node, Problems) {
		return nil, Problems{{File: file, Line: line, Column: col, Message: fmt.Sprintf(format, args...)}}
	}
	if !utf8.Valid(data) {
		i := 0
		for r, n := utf8.DecodeRune(data); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(data[i:]) {
			i += n
		}
		return fail(1+bytes.Count(data[:i], []byte("\n")), i-bytes.LastIndexByte(data[:i], '\n'), "the text is not UTF-8")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := decodeYAML(dec, &doc)
	if errors.Is(err, io.EOF) || err == nil && (len(doc.Content) == 0 || isNull(doc.Content[0])) {
		_, ps := fail(1, 1, "the file is empty: delete it, or write handlers, recipes, projects, chains or packages")
		ps[0].Empty = true
		return nil, ps
	}
	if err != nil {
		line, text := yamlError(err)
		return fail(line, 1, "not YAML: %s", text)
	}
	if err := decodeYAML(dec, &second); !errors.Is(err, io.EOF) {
		return fail(max(second.Line, 1), 1, "a second document: one file holds one")
	}
	root := doc.Content[0]
	if p := refuseTricks(root, 0); p != nil {
		p.File = file
		return nil, Problems{*p}
	}
	return root, nil
}

// decodeYAML decodes the next document. It turns a panic of the YAML reader into an error, because an agent may have
// written the text.
func decodeYAML(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the text confuses the YAML reader")
		}
	}()
	return dec.Decode(n)
}

// refuseTricks returns the first anchor, alias, tag or too deep nesting in a node as a problem, or nil.
func refuseTricks(n *yaml.Node, depth int) *Problem {
	message := ""
	switch {
	case depth > maxDepth:
		message = fmt.Sprintf("nested deeper than %d levels", maxDepth)
	case n.Kind == yaml.AliasNode:
		message = "aliases (*name) are not taken: write the value out"
	case n.Anchor != "":
		message = "anchors (&name) are not taken: write the value out where it is needed"
	case n.Style&yaml.TaggedStyle != 0:
		message = "tags (!name) are not taken"
	}
	if message != "" {
		return &Problem{Line: n.Line, Column: n.Column, Message: message}
	}
	for _, c := range n.Content {
		if p := refuseTricks(c, depth+1); p != nil {
			return p
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

var yamlLine = pattern.Lazy(`^yaml: (?:line (\d+): )?`)

// yamlError splits an error of the YAML reader into the line, at least 1, and the text.
func yamlError(err error) (line int, text string) {
	m := yamlLine().FindStringSubmatch(err.Error())
	if len(m) == 0 {
		return 1, err.Error()
	}
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), err.Error()[len(m[0]):]
}
