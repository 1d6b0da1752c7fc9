package classify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/manifest"
)

// maxUp bounds how many directories a search for manifests visits: the command's own and those above it. The search
// ends at the root of the repository.
const maxUp = 6

// declared finds out whether the project declares a package, and whether the package is installed. pkg may be the name
// of an import: a/b for package a, or a Python module whose distribution has another name.
func declared(dir, pkg string) Finding {
	if dir == "" || pkg == "" {
		return Finding{}
	}
	if relative().MatchString(pkg) {
		return Finding{Holds: No, Value: "relative", Detail: "it is a place in the project, not a package"}
	}
	seen := false
	for n, d := 0, dir; n < maxUp; n++ {
		for _, look := range []func(dir, pkg string) (declares, manifest bool, state string){inNode, inPython, inGo, inCargo, inRuby, inPHP} {
			yes, manifest, state := look(d, pkg)
			seen = seen || manifest
			if yes {
				return Finding{Holds: Yes, Value: state, Detail: "the project declares " + pkg + "; it is " + state}
			}
		}
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil || filepath.Dir(d) == d {
			break
		}
		d = filepath.Dir(d)
	}
	if !seen {
		return Finding{Detail: "no manifest was found"}
	}
	return Finding{Holds: No, Value: "undeclared", Detail: "the project does not declare " + pkg}
}

// nodeName returns the package of an import: @scope/name for @scope/name/sub.
func nodeName(pkg string) string {
	parts := strings.SplitN(strings.TrimPrefix(pkg, "node:"), "/", 3)
	if strings.HasPrefix(pkg, "@") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func inNode(dir, pkg string) (declares, seen bool, state string) {
	data := readWhole(filepath.Join(dir, "package.json"))
	if data == nil {
		return false, false, ""
	}
	name := nodeName(pkg)
	m, _ := manifest.PackageJSON(data)
	if m.Declares(name) {
		return true, true, nodeState(dir, name)
	}
	for _, w := range workspaces(dir, m) {
		inner, ok := manifest.PackageJSON(readWhole(filepath.Join(w, "package.json")))
		if inner.Declares(name) {
			return true, true, nodeState(w, name)
		}
		if ok && inner.Name == name {
			return true, true, nodeState(dir, name)
		}
	}
	// The lock file lists the dependencies of the declared packages.
	for _, lock := range []string{"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock"} {
		if b := readWhole(filepath.Join(dir, lock)); b != nil && lockHas(string(b), lock, name) {
			return true, true, nodeState(dir, name)
		}
	}
	return false, true, ""
}

func lockHas(text, lock, name string) bool {
	switch lock {
	case "yarn.lock":
		return strings.Contains(text, "\n"+name+"@") || strings.Contains(text, `"`+name+"@")
	case "pnpm-lock.yaml":
		return strings.Contains(text, "\n  /"+name+"@") || strings.Contains(text, "\n  "+name+"@") || strings.Contains(text, "\n  '"+name+"@") || strings.Contains(text, "\n  /"+name+"/")
	case "bun.lock":
		return strings.Contains(text, `"`+name+`": [`)
	}
	return strings.Contains(text, `"node_modules/`+name+`"`) || strings.Contains(text, `"`+name+`": {`)
}

// workspaces returns the directories of the workspaces that a root manifest names, at most 200.
func workspaces(dir string, m manifest.Package) []string {
	globs := append(m.Workspaces, manifest.YAMLList(readWhole(filepath.Join(dir, "pnpm-workspace.yaml")), "packages")...)
	var out []string
	for _, g := range globs {
		if strings.Contains(g, "..") || strings.HasPrefix(g, "!") || filepath.IsAbs(g) {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(dir, strings.ReplaceAll(g, "**", "*")))
		out = append(out, found...)
	}
	return out[:min(len(out), 200)]
}

// nodeState returns "installed", "broken" or "missing" for a package in the node_modules of dir or of a directory
// above.
func nodeState(dir, name string) string {
	for range maxUp {
		at := filepath.Join(dir, "node_modules", filepath.FromSlash(name))
		if _, err := os.Lstat(at); err == nil {
			file := filepath.Join(at, "package.json")
			if info, err := os.Lstat(file); err == nil && info.Mode()&os.ModeSymlink != 0 {
				return "installed" // bun can install by links, and readWhole follows no link
			}
			m, ok := manifest.PackageJSON(readWhole(file))
			if !ok {
				return "broken"
			}
			if m.Main != "" && !nodeMain(filepath.Join(at, filepath.FromSlash(m.Main))) {
				return "broken"
			}
			return "installed"
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return "missing"
}

func nodeMain(path string) bool {
	for _, suffix := range []string{"", ".js", ".cjs", ".mjs", ".json", ".node", "/index.js", ".d.ts"} {
		if _, err := os.Stat(path + suffix); err == nil {
			return true
		}
	}
	return false
}

// readWhole reads a regular file of at most 16 MiB. It returns nil if it cannot read the file.
func readWhole(path string) []byte {
	if b, err := door.Read(path, 16<<20); err == nil {
		return b
	}
	return nil
}

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

// requirementOf reports whether a line of a manifest requires one of the names. The name may stand as a requirement, as
// a quoted element of a list, or as the key of a table.
func requirementOf(line string, names map[string]bool) bool {
	line, _, _ = strings.Cut(line, "#")
	line = strings.TrimPrefix(strings.TrimSpace(line), "- ")
	for _, part := range append([]string{line}, quotedParts(line)...) {
		rest := strings.TrimLeft(part, wordBytes+"-.")
		if name := strings.TrimSuffix(part, rest); name == "" || !names[manifest.PythonName(name)] {
			continue
		}
		if rest = strings.TrimSpace(rest); rest == "" || strings.ContainsAny(rest[:1], "=<>!~[;@,(") || strings.HasPrefix(rest, ":") {
			return true
		}
	}
	return false
}

// quotedParts returns the first 50 quoted strings of a line.
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

// pythonState returns "installed" if the project's own virtual environment has the module, else "missing".
func pythonState(dir, module string) string {
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
	return "missing"
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
	var m struct {
		Require    map[string]any `json:"require"`
		RequireDev map[string]any `json:"require-dev"`
	}
	if data == nil || json.Unmarshal(data, &m) != nil {
		return false, data != nil, ""
	}
	for _, name := range []string{pkg, "ext-" + pkg} {
		_, a := m.Require[name]
		_, b := m.RequireDev[name]
		if a || b {
			if _, err := os.Stat(filepath.Join(dir, "vendor", filepath.FromSlash(name))); err == nil {
				return true, true, "installed"
			}
			return true, true, "missing"
		}
	}
	return false, true, ""
}
