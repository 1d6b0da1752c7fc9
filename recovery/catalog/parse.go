package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/superloop/superloop/internal/pattern"
)

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

// Problem is one thing that is wrong with a file of the catalog.
type Problem struct {
	File    string `json:"file"`    // as it was opened; embedded files begin with "data/"
	Line    int    `json:"line"`    // from 1; 0 when there is no place (a file that cannot be read)
	Column  int    `json:"column"`  // from 1, in characters
	Pointer string `json:"pointer"` // as a JSON pointer: /handlers/3/options/0/dep
	Message string `json:"message"` // one sentence that says what to write instead, where that is known
	Near    string `json:"near,omitempty"`
	Warning bool   `json:"warning,omitempty"` // the entry works all the same
}

// String is "file:line:column: pointer: message".
func (p Problem) String() string {
	s := p.File
	if p.Line > 0 {
		s += fmt.Sprintf(":%d:%d", p.Line, max(p.Column, 1))
	}
	if p.Pointer != "" {
		s += ": " + p.Pointer
	}
	if p.Warning {
		s += ": warning"
	}
	return s + ": " + p.Message
}

// Problems is what is wrong, in the order of the files.
type Problems []Problem

// maxShown bounds what Err puts into one text.
const maxShown = 20

// Errors are those that are not warnings.
func (ps Problems) Errors() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Warning })
}

// Err is nil when there are warnings at most; else an error that lists the first problems, one a line.
func (ps Problems) Err() error {
	bad := ps.Errors()
	if len(bad) == 0 {
		return nil
	}
	var lines []string
	for _, p := range bad[:min(len(bad), maxShown)] {
		lines = append(lines, p.String())
	}
	if len(bad) > maxShown {
		lines = append(lines, fmt.Sprintf("and %d more", len(bad)-maxShown))
	}
	return errors.New(strings.Join(lines, "\n"))
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ps)
}
