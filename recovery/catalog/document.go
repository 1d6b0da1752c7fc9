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

// document is one file: its entries as they were written, and where they are to go.
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

var (
	listKeys  = []string{"handlers", "recipes", "projects", "chains", "categories", "managers"}
	nameKinds = []string{NameGroup, NameLib, NameHeader, NamePkgConfig, NameCMake, NameSoname}
)

// readDocument takes a file apart at its top level.
func readDocument(origin Origin, data []byte) (*document, Problems) {
	root, ps := parseYAML(origin.File, data)
	if len(ps) > 0 {
		return nil, ps
	}
	doc := &document{origin: origin, root: root, lists: map[string]*yaml.Node{}}
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

// locate gives the line and column of a place in the document. A token "@id" stands for the element of a list with that
// id. Where the place itself was not written in this file, its nearest parent that was is given.
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

// The verbs of an overlay's entries.
const (
	verbExtends  = "extends"
	verbReplace  = "replace"
	verbDisabled = "disabled"
)

// entry is what a mapping says about itself before its fields are read: its id, and what it does to the entry of that
// id that is there already.
type entry struct {
	id                         string
	extends, replace, disabled bool
	read                       []string // the keys that are read with this, besides the fields
}

// changes reports whether the entry needs another one that it changes.
func (e entry) changes() bool { return e.extends || e.replace || e.disabled }

// entries calls each for the entries of a list that can be applied: their id is new in this list, and if they change an
// entry it is one of the known ones. The others are problems.
func (d *decoder) entries(list *yaml.Node, ptr, key, what string, known []string, each func(n *yaml.Node, ptr string, e entry)) {
	seen := map[string]bool{}
	for i, n := range list.Content {
		if d.full() {
			return
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

// entry reads the id, which key holds, and the verbs of n. Its id is "" if they are wrong, which is then a problem.
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

// moved says what is written instead of a key of an older shape or of another design, or "".
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

// maxDepth is how deep a file may be nested; the deepest entry needs ten levels.
const maxDepth = 40

// parseYAML reads one document and refuses what would let two readers see two different things in it: anchors and
// aliases, tags, merge keys, a second document, bytes that are not UTF-8. It gives nil if there is a problem.
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
		return fail(1, 1, "the file is empty: delete it, or write handlers, recipes, projects, chains or packages")
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

// decodeYAML turns a panic of the reader into an error: the text may be an agent's.
func decodeYAML(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the text confuses the YAML reader")
		}
	}()
	return dec.Decode(n)
}

// refuseTricks gives the first problem below a node; nil is none.
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

// yamlError takes the line out of what the reader says.
func yamlError(err error) (line int, text string) {
	m := yamlLine().FindStringSubmatch(err.Error())
	if len(m) == 0 {
		return 1, err.Error()
	}
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), err.Error()[len(m[0]):]
}
