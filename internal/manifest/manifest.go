// Package manifest reads package manifests and lock files, for those who pin them, compare them with what is installed,
// or look a package up in them. It takes bytes and gives facts. Agents may have written the bytes, so every reader
// takes time and memory in proportion to them, and none fails on them: what cannot be read is said, or left out where
// the function says so.
package manifest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Crate is a dependency of a Cargo.toml.
type Crate struct {
	Name      string // in the file and in the code
	Package   string // the crate's own name
	Workspace bool   // offered to the members of the workspace only
}

// Cargo reads the dependencies of a Cargo.toml, those for development, for the build and for one system included. ok is
// false for what TOML does not read.
func Cargo(text []byte) (crates []Crate, ok bool) {
	all, ok := TOML(text)
	at := map[string]int{}
	for _, s := range all {
		table, key, found := strings.Cut(s.Path, "dependencies.")
		if !found {
			continue
		}
		name, field, _ := strings.Cut(key, ".")
		i, known := at[table+name]
		if !known {
			i = len(crates)
			at[table+name] = i
			crates = append(crates, Crate{Name: name, Package: name, Workspace: strings.HasPrefix(table, "workspace")})
		}
		if field == "package" {
			crates[i].Package = s.Plain()
		} else if p := s.Field("package"); field == "" && p != "" {
			crates[i].Package = p
		}
	}
	return crates, ok
}

// CargoLock gives the names of the crates in a Cargo.lock.
func CargoLock(text []byte) map[string]bool {
	all, _ := TOML(text)
	names := map[string]bool{}
	for _, s := range all {
		if s.Path == "package.name" {
			names[s.Plain()] = true
		}
	}
	return names
}

// Directive is a directive of a go.mod or go.work, in a block of its kind or not.
type Directive struct {
	Verb  string
	Words []string // behind the verb, as they are written
}

// GoMod gives the directives of a go.mod or go.work, in their order.
func GoMod(text []byte) []Directive {
	var out []Directive
	block := ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case block != "" && words[0] == ")":
			block = ""
		case block != "":
			out = append(out, Directive{block, words})
		case len(words) > 1 && words[1] == "(" || strings.HasSuffix(words[0], "("):
			block = strings.TrimSuffix(words[0], "(")
		default:
			out = append(out, Directive{words[0], words[1:]})
		}
	}
	return out
}

// Package is what a package.json says. A field that is of another type than it should be is as if it were not there.
type Package struct {
	Name, Version, Main string
	Manager             string // name@version
	Scripts             map[string]string
	Workspaces          []string // patterns of directories
	Dependencies, DevDependencies,
	PeerDependencies, OptionalDependencies map[string]string
}

// PackageJSON reads a package.json as JavaScript does: names are case-sensitive, the last of two counts, a byte order
// mark is nothing. ok is false for what is no JSON object.
func PackageJSON(text []byte) (p Package, ok bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), &all) != nil {
		return p, false
	}
	for name, field := range map[string]any{
		"name": &p.Name, "version": &p.Version, "main": &p.Main, "packageManager": &p.Manager, "scripts": &p.Scripts, "dependencies": &p.Dependencies,
		"devDependencies": &p.DevDependencies, "peerDependencies": &p.PeerDependencies, "optionalDependencies": &p.OptionalDependencies,
	} {
		_ = json.Unmarshal(all[name], field) // see Package
	}
	if json.Unmarshal(all["workspaces"], &p.Workspaces) != nil {
		var nested map[string]json.RawMessage // of yarn 1
		_ = json.Unmarshal(all["workspaces"], &nested)
		_ = json.Unmarshal(nested["packages"], &p.Workspaces)
	}
	return p, all != nil
}

// Declares reports whether a package is among the dependencies of any kind.
func (p Package) Declares(name string) bool {
	for _, kind := range []map[string]string{p.Dependencies, p.DevDependencies, p.PeerDependencies, p.OptionalDependencies} {
		if _, ok := kind[name]; ok {
			return true
		}
	}
	return false
}

// YAMLList reads the list of strings under a key at the beginning of a line, in either form; what it cannot read means
// everything, which is "**".
func YAMLList(text []byte, name string) []string {
	var out []string
	in := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, " \t\r\n")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' || in && line[0] == '-' {
			item, ok := strings.CutPrefix(trimmed, "-")
			if !ok {
				item = "**"
			}
			if in {
				out = append(out, yamlScalar(item))
			}
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		in = strings.Trim(key, `"'`) == name
		if value = strings.TrimSpace(value); in && value != "" && value[0] != '#' {
			for item := range strings.SplitSeq(strings.Trim(value, "[]"), ",") {
				out = append(out, yamlScalar(item))
			}
			if value[0] != '[' || !strings.HasSuffix(value, "]") {
				out = append(out, "**")
			}
		}
	}
	return out
}

func yamlScalar(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), " #")
	return strings.Trim(strings.TrimSpace(s), `"'`)
}

// Requirements gives the lines of a requirements file, continued ones joined, without comments and blank lines.
func Requirements(text []byte) []string {
	var out []string
	for line := range strings.Lines(strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\\\n", " ")) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

// PythonName is a distribution's name as names are compared (PEP 503).
func PythonName(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.", r) }), "-")
}

// Bounds of a TOML file. The parser's tree of a line is up to 60 times as long as the line, and a key is repeated in
// each setting of its table.
const (
	maxTOML  = 2 << 20  // bytes of the file
	maxPaths = 16 << 20 // bytes of the paths of all settings
	maxDepth = 50       // arrays and inline tables in one another
)

// Setting is a key of a TOML file with its value. Inline tables and arrays are values.
type Setting struct {
	// Path are the names of the tables and the key, with dots between them and without quotes: "build-system".requires
	// and build-system.requires are one.
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

// TOML reads a TOML file into its settings, in their order. A key of an array of tables comes once for each element. ok
// is false for what is no TOML, for a key with an escape, and for a file beyond the bounds: more than 2 MiB, more than
// 50 arrays and inline tables in one another. That a key is defined twice is no fault here: finding out takes the
// library's decoder quadratic time.
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
