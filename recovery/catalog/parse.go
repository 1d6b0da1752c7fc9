package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/superloop/superloop/internal/pattern"
)

// maxDepth is how deep a file may be nested; the deepest entry needs ten levels.
const maxDepth = 40

var errPanic = errors.New("the text confuses the YAML reader")

// parseYAML reads one document and refuses what would let two readers see two
// different things in it: anchors and aliases, tags, merge keys, a second
// document, bytes that are not UTF-8. It gives nil if there is a problem.
func parseYAML(file string, data []byte) (*yaml.Node, Problems) {
	fail := func(line, col int, format string, args ...any) (*yaml.Node, Problems) {
		return nil, Problems{{File: file, Line: line, Column: col, Message: fmt.Sprintf(format, args...)}}
	}
	if i := invalidUTF8(data); i >= 0 {
		return fail(1+bytes.Count(data[:i], []byte("\n")), i-bytes.LastIndexByte(data[:i], '\n'), "the text is not UTF-8")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := decodeYAML(dec, &doc)
	if errors.Is(err, io.EOF) || err == nil && (len(doc.Content) == 0 || isNull(doc.Content[0])) {
		return fail(1, 1, "the file is empty: delete it, or write handlers, recipes, projects, chains or packages")
	}
	if err != nil {
		return fail(yamlErrorLine(err), 1, "not YAML: %s", yamlErrorText(err))
	}
	if err := decodeYAML(dec, &second); !errors.Is(err, io.EOF) {
		return fail(max(second.Line, 1), 1, "a second document: one file holds one")
	}
	root := doc.Content[0]
	ps := refuseTricks(file, root, 0, nil)
	if len(ps) > 0 {
		return nil, ps
	}
	return root, nil
}

// decodeYAML turns a panic of the reader into an error: the text may be an
// agent's, and the reader is not ours.
func decodeYAML(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return dec.Decode(n)
}

func refuseTricks(file string, n *yaml.Node, depth int, ps Problems) Problems {
	add := func(message string) Problems {
		return append(ps, Problem{File: file, Line: n.Line, Column: n.Column, Message: message})
	}
	switch {
	case depth > maxDepth:
		return add(fmt.Sprintf("nested deeper than %d levels", maxDepth))
	case n.Kind == yaml.AliasNode:
		return add("aliases (*name) are not taken: write the value out")
	case n.Anchor != "":
		return add("anchors (&name) are not taken: write the value out where it is needed")
	case n.Style&yaml.TaggedStyle != 0:
		return add("tags (!name) are not taken")
	}
	for _, c := range n.Content {
		if ps = refuseTricks(file, c, depth+1, ps); len(ps) > 0 {
			return ps
		}
	}
	return ps
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return -1
}

var yamlLine = pattern.Lazy(`^yaml: (?:line (\d+): )?`)

func yamlErrorLine(err error) int {
	if m := yamlLine().FindStringSubmatch(err.Error()); m != nil && m[1] != "" {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return n
		}
	}
	return 1
}

func yamlErrorText(err error) string { return yamlLine().ReplaceAllString(err.Error(), "") }
