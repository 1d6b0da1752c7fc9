package classify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
)

func inPython(dir, pkg string) (declares, seen bool, state string) {
	module, _, _ := strings.Cut(pkg, ".")
	names := map[string]bool{manifest.PythonName(module): true}
	for d := range strings.FieldsSeq(named("python", strings.ToLower(module))) {
		names[d] = true
	}
	files := []string{"pyproject.toml", "setup.cfg", "setup.py", "Pipfile", "tox.ini", "environment.yml", "poetry.lock", "uv.lock", "Pipfile.lock"}
	for _, glob := range []string{"requirements*.txt", "requirements/*.txt", "*requirements.txt", "requirements*.in"} {
		found, _ := filepath.Glob(filepath.Join(dir, glob))
		for _, f := range found {
			if rel, err := filepath.Rel(dir, f); err == nil {
				files = append(files, rel)
			}
		}
	}
	for _, f := range files {
		data := readWhole(filepath.Join(dir, f))
		if data == nil {
			continue
		}
		seen = true
		for line := range strings.Lines(string(data)) {
			if requirementOf(line, names) {
				return true, true, pythonState(dir, module)
			}
		}
	}
	return false, seen, ""
}

// requirementOf reports whether a line of a manifest requires one of the names: a requirement, an element of a list
// of them, or a key of a table.
func requirementOf(line string, names map[string]bool) bool {
	line, _, _ = strings.Cut(line, "#")
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "- ")
	for _, part := range append([]string{line}, quotedParts(line)...) {
		end := strings.IndexFunc(part, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
		})
		if end < 0 {
			end = len(part)
		}
		if end == 0 || !names[manifest.PythonName(part[:end])] {
			continue
		}
		rest := strings.TrimSpace(part[end:])
		if rest == "" || strings.ContainsAny(rest[:1], "=<>!~[;@,(") || strings.HasPrefix(rest, ":") {
			return true
		}
	}
	return false
}

// quotedParts are the texts in quotes on a line.
func quotedParts(line string) []string {
	var out []string
	for len(out) < 50 {
		i := strings.IndexAny(line, `"'`)
		if i < 0 {
			break
		}
		j := strings.IndexByte(line[i+1:], line[i])
		if j < 0 {
			break
		}
		out = append(out, line[i+1:i+1+j])
		line = line[i+j+2:]
	}
	return out
}

// pythonState looks for a module in the project's own virtual environment.
func pythonState(dir, module string) string {
	state := "missing"
	for _, venv := range []string{".venv", "venv", "env"} {
		found, _ := filepath.Glob(filepath.Join(dir, venv, "lib", "python3*", "site-packages"))
		for _, site := range found {
			for _, name := range []string{module, module + ".py"} {
				if _, err := os.Stat(filepath.Join(site, name)); err == nil {
					return "installed"
				}
			}
		}
	}
	return state
}

func inGo(dir, pkg string) (declares, seen bool, state string) {
	data := readWhole(filepath.Join(dir, "go.mod"))
	for _, d := range manifest.GoMod(data) {
		if d.Verb == "require" && len(d.Words) > 1 && (pkg == d.Words[0] || strings.HasPrefix(pkg, d.Words[0]+"/")) {
			return true, true, "missing"
		}
	}
	return false, data != nil, ""
}

func inCargo(dir, pkg string) (declares, seen bool, state string) {
	data := readWhole(filepath.Join(dir, "Cargo.toml"))
	crates, _ := manifest.Cargo(data)
	dashed := func(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }
	if slices.ContainsFunc(crates, func(c manifest.Crate) bool { return dashed(c.Name) == dashed(pkg) }) {
		return true, true, "missing"
	}
	return false, data != nil, ""
}

func inRuby(dir, pkg string) (declares, manifest bool, state string) {
	gem, _, _ := strings.Cut(pkg, "/")
	dashed := strings.ReplaceAll(pkg, "/", "-")
	for _, f := range []string{"Gemfile", "Gemfile.lock"} {
		data := readWhole(filepath.Join(dir, f))
		if data == nil {
			continue
		}
		manifest = true
		for line := range strings.Lines(string(data)) {
			t := strings.TrimSpace(line)
			for _, name := range []string{gem, dashed} {
				if strings.HasPrefix(t, "gem '"+name+"'") || strings.HasPrefix(t, `gem "`+name+`"`) || f == "Gemfile.lock" && strings.HasPrefix(t, name+" (") {
					return true, true, "missing"
				}
			}
		}
	}
	return false, manifest, ""
}

func inPHP(dir, pkg string) (declares, manifest bool, state string) {
	data := readWhole(filepath.Join(dir, "composer.json"))
	if data == nil {
		return false, false, ""
	}
	var m struct {
		Require    map[string]any `json:"require"`
		RequireDev map[string]any `json:"require-dev"`
	}
	if json.Unmarshal(data, &m) != nil {
		return false, true, ""
	}
	for _, name := range []string{pkg, "ext-" + pkg} {
		_, a := m.Require[name]
		_, b := m.RequireDev[name]
		if a || b {
			state = "missing"
			if _, err := os.Stat(filepath.Join(dir, "vendor", filepath.FromSlash(name))); err == nil {
				state = "installed"
			}
			return true, true, state
		}
	}
	return false, true, ""
}
