package manifest

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Package is what a package.json says. A field that is of another type than it
// should be is as if it were not there.
type Package struct {
	Name, Version, Main string
	Manager             string // name@version
	Scripts             map[string]string
	Workspaces          []string // patterns of directories
	Dependencies, DevDependencies,
	PeerDependencies, OptionalDependencies map[string]string
}

// PackageJSON reads a package.json as JavaScript does: names are case-sensitive,
// the last of two counts, a byte order mark is nothing. ok is false for what is no
// JSON object.
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

// YAMLList reads the list of strings under a key at the beginning of a line, in
// either form; what it cannot read means everything.
func YAMLList(text []byte, name string) []string {
	var out []string
	in := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, " \t\r\n")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if line[0] != ' ' && line[0] != '\t' && !(in && line[0] == '-') {
			key, value, _ := strings.Cut(line, ":")
			in = strings.Trim(key, `"'`) == name
			if value = strings.TrimSpace(value); in && value != "" && value[0] != '#' {
				for _, item := range strings.Split(strings.Trim(value, "[]"), ",") {
					out = append(out, yamlScalar(item))
				}
				if value[0] != '[' || !strings.HasSuffix(value, "]") {
					out = append(out, "**")
				}
			}
			continue
		}
		if !in {
			continue
		}
		item, ok := strings.CutPrefix(trimmed, "-")
		if !ok {
			item = "**"
		}
		out = append(out, yamlScalar(item))
	}
	return out
}

func yamlScalar(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.Index(s, " #"); i >= 0 {
		s = strings.TrimSpace(s[:i])
	}
	return strings.Trim(s, `"'`)
}
