// Package manifest reads package manifests and lock files. Its callers pin these files, compare them with the installed
// packages, or look up a package in them. Each function takes bytes and returns facts. Agents may have written the
// bytes. So the time and memory of each function are proportional to its input, and no function crashes on bad input.
// The comment of each function says whether it reports or skips what it cannot read.
package manifest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Crate is a dependency in a Cargo.toml.
type Crate struct {
	Name      string // name in the file and in the code
	Package   string // own name of the crate
	Workspace bool   // the workspace only offers it to its members
}

// Cargo returns the dependencies in a Cargo.toml. They include those for development, for the build and for one
// platform. ok is false if text is not TOML that function TOML can read.
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

// CargoLock returns the names of the crates in a Cargo.lock.
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

// Directive is a directive of a go.mod or go.work, alone on its line or in a block.
type Directive struct {
	Verb  string
	Words []string // words after the verb, as written
}

// GoMod returns the directives of a go.mod or go.work, in their order.
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

// Package holds the fields of a package.json. A field of the wrong type counts as missing.
type Package struct {
	Name, Version, Main string
	Manager             string // name@version
	DevManager          string // the name in devEngines.packageManager
	Engines             map[string]string
	Scripts             map[string]string
	Workspaces          []string // glob patterns of directories
	Dependencies, DevDependencies,
	PeerDependencies, OptionalDependencies map[string]string
}

// PackageJSON reads a package.json by the rules of JavaScript: names are case-sensitive, the last of several equal
// names counts, and a byte order mark is ignored. ok is false if text is not a JSON object.
func PackageJSON(text []byte) (p Package, ok bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), &all) != nil {
		return p, false
	}
	for name, field := range map[string]any{
		"name": &p.Name, "version": &p.Version, "main": &p.Main, "packageManager": &p.Manager, "engines": &p.Engines, "scripts": &p.Scripts, "dependencies": &p.Dependencies,
		"devDependencies": &p.DevDependencies, "peerDependencies": &p.PeerDependencies, "optionalDependencies": &p.OptionalDependencies,
	} {
		_ = json.Unmarshal(all[name], field) // see Package
	}
	if json.Unmarshal(all["workspaces"], &p.Workspaces) != nil {
		var nested map[string]json.RawMessage // the form of yarn 1
		_ = json.Unmarshal(all["workspaces"], &nested)
		_ = json.Unmarshal(nested["packages"], &p.Workspaces)
	}
	var tools struct {
		Manager struct {
			Name string `json:"name"`
		} `json:"packageManager"`
	}
	_ = json.Unmarshal(all["devEngines"], &tools)
	p.DevManager = tools.Manager.Name
	return p, all != nil
}

// Declares reports whether the package depends on the package of that name, in any kind of dependency.
func (p Package) Declares(name string) bool {
	for _, kind := range []map[string]string{p.Dependencies, p.DevDependencies, p.PeerDependencies, p.OptionalDependencies} {
		if _, ok := kind[name]; ok {
			return true
		}
	}
	return false
}

// YAMLList reads the list of strings under a top-level key, in the block form or in the flow form. For a part that it
// cannot read it returns "**", which matches everything.
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

// Requirements returns the lines of a requirements file, without comments and blank lines. It joins continued lines.
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

// PythonName returns the name of a distribution in the normalized form in which names are compared (PEP 503).
func PythonName(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.", r) }), "-")
}

// Bounds of a TOML file. They are needed because the parser's tree of a line is up to 60 times as long as the line, and
// because each setting repeats the key of its table.
const (
	maxTOML  = 2 << 20  // bytes of the file
	maxPaths = 16 << 20 // bytes of the paths of all settings
	maxDepth = 50       // nested arrays and inline tables
)

// Setting is a key of a TOML file with its value. Inline tables and arrays count as values.
type Setting struct {
	// Path holds the names of the tables and the key, separated by dots and without quotes. So "build-system".requires
	// and build-system.requires give the same path.
	Path string
	// Value is the text of the value, without comments and with normalized white space.
	Value string
	// Strings holds the decoded strings in the value, in their order.
	Strings []string
	fields  map[string]string
}

// Plain returns the decoded value of a string. For another value it returns the text.
func (s Setting) Plain() string {
	if strings.HasPrefix(s.Value, `"`) || strings.HasPrefix(s.Value, "'") {
		return s.Strings[0]
	}
	return s.Value
}

// Field returns the string under a key of an inline table, or "" if there is none.
func (s Setting) Field(key string) string { return s.fields[key] }

// TOML reads the settings of a TOML file, in their order. A key in an array of tables occurs once for each element. ok
// is false if text is not TOML, if a key contains an escape, or if the file exceeds the bounds: 2 MiB, 16 MiB for the
// paths of all settings, and 50 nested arrays and inline tables. A key that is defined twice is not an error here,
// because the library's decoder needs quadratic time to find it.
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

// value appends the text of a value to to, and collects the strings in the value.
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
