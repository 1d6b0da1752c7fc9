// Package manifest reads package manifests and lock files, for those who pin them, compare them with what is installed, or
// look a package up in them. It takes bytes and gives facts. Agents may have written the bytes, so every reader takes time
// and memory in proportion to them, and none fails on them: what cannot be read is said, or left out where the function
// says so.
package manifest

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Crate is a dependency of a Cargo.toml.
type Crate struct {
	Name      string // in the file and in the code
	Package   string // the crate's own name
	Workspace bool   // offered to the members of the workspace only
}

// Cargo reads the dependencies of a Cargo.toml, those for development, for the build and for one system included. ok
// is false for what TOML does not read.
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
