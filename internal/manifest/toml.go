package manifest

import (
	"bytes"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Bounds of a TOML file. The parser's tree of a line is up to 60 times as long as the line, and a key is repeated in
// each setting of its table.
const (
	maxTOML  = 2 << 20  // bytes of the file
	maxPaths = 16 << 20 // bytes of the paths of all settings
	maxDepth = 50       // arrays and inline tables in one another
)

// Setting is a key of a TOML file with its value. Inline tables and arrays are values.
type Setting struct {
	// Path are the names of the tables and the key, with dots between them and without quotes:
	// "build-system".requires and build-system.requires are one.
	Path string
	// Value is the value as it is written, but for comments and white space.
	Value string
	// Strings are the strings in the value, decoded, in their order.
	Strings []string
	fields  map[string]string
}

// Plain is the value of a string, decoded; of anything else what is written.
func (s Setting) Plain() string {
	if strings.HasPrefix(s.Value, `"`) || strings.HasPrefix(s.Value, "'") {
		return s.Strings[0]
	}
	return s.Value
}

// Field is the string under a key of an inline table, "" if there is none.
func (s Setting) Field(key string) string { return s.fields[key] }

// TOML reads a TOML file into its settings, in their order. A key of an array of tables comes once for each element.
// ok is false for what is no TOML, for a key with an escape, and for a file beyond the bounds: more than 2 MiB, more
// than 50 arrays and inline tables in one another. That a key is defined twice is no fault here: finding out takes
// the library's decoder quadratic time.
func TOML(text []byte) (all []Setting, ok bool) {
	if len(text) > maxTOML {
		return nil, false
	}
	var p unstable.Parser
	p.Reset(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	table, paths := "", 0
	for p.NextExpression() {
		e := p.Expression()
		key, ok := dotted(&p, e.Key())
		if !ok {
			return nil, false
		}
		if e.Kind != unstable.KeyValue {
			table = key + "."
			continue
		}
		s := Setting{Path: table + key}
		var written strings.Builder
		if paths += len(s.Path); paths > maxPaths || !s.value(&p, e.Value(), &written, 0) {
			return nil, false
		}
		s.Value = written.String()
		all = append(all, s)
	}
	if p.Error() != nil {
		return nil, false
	}
	return all, true
}

func dotted(p *unstable.Parser, key unstable.Iterator) (string, bool) {
	var names []string
	for key.Next() {
		if bytes.IndexByte(p.Raw(key.Node().Raw), '\\') >= 0 {
			return "", false
		}
		names = append(names, string(key.Node().Data))
	}
	return strings.Join(names, "."), true
}

// value writes a value down and takes the strings out of it.
func (s *Setting) value(p *unstable.Parser, n *unstable.Node, to *strings.Builder, depth int) bool {
	ends := map[unstable.Kind]string{unstable.Array: "[]", unstable.InlineTable: "{}"}[n.Kind]
	if n.Kind == unstable.String {
		s.Strings = append(s.Strings, string(n.Data))
	}
	if ends == "" {
		to.Write(p.Raw(n.Raw))
		return true
	}
	if depth >= maxDepth {
		return false
	}
	to.WriteByte(ends[0])
	inner := n.Children()
	for first := true; inner.Next(); first = false {
		v := inner.Node()
		if !first {
			to.WriteString(", ")
		}
		if v.Kind == unstable.KeyValue {
			key, ok := dotted(p, v.Key())
			if !ok {
				return false
			}
			to.WriteString(key + " = ")
			if v = v.Value(); depth == 0 && v.Kind == unstable.String {
				if s.fields == nil {
					s.fields = map[string]string{}
				}
				s.fields[key] = string(v.Data)
			}
		}
		if !s.value(p, v, to, depth+1) {
			return false
		}
	}
	to.WriteByte(ends[1])
	return true
}
