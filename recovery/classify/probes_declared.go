package classify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// maxUp bounds how many directories above the command's are searched for
// manifests; the search ends at a repository's root.
const maxUp = 6

// declared says whether the project declares a package, and whether it is
// installed. The name may be one that is imported: a/b of a package a, or a
// Python module whose distribution is called otherwise.
func declared(dir, pkg string) Finding {
	if dir == "" || pkg == "" {
		return Finding{}
	}
	if relative(pkg) {
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

// nodeName is the package of an import: @scope/name/sub is @scope/name.
func nodeName(pkg string) string {
	parts := strings.SplitN(strings.TrimPrefix(pkg, "node:"), "/", 3)
	if strings.HasPrefix(pkg, "@") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func inNode(dir, pkg string) (declares, manifest bool, state string) {
	data := readWhole(filepath.Join(dir, "package.json"))
	if data == nil {
		return false, false, ""
	}
	name := nodeName(pkg)
	if manifestHas(data, name) {
		return true, true, nodeState(dir, name)
	}
	for _, w := range workspaces(dir, data) {
		if inner := readWhole(filepath.Join(w, "package.json")); inner != nil {
			if manifestHas(inner, name) {
				return true, true, nodeState(w, name)
			}
			var m struct {
				Name string `json:"name"`
			}
			if json.Unmarshal(inner, &m) == nil && m.Name == name {
				return true, true, nodeState(dir, name)
			}
		}
	}
	// What a declared package brings along is in the lock file.
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

func manifestHas(data []byte, name string) bool {
	var m struct {
		Dependencies         map[string]any `json:"dependencies"`
		DevDependencies      map[string]any `json:"devDependencies"`
		PeerDependencies     map[string]any `json:"peerDependencies"`
		OptionalDependencies map[string]any `json:"optionalDependencies"`
	}
	if json.Unmarshal(data, &m) != nil {
		return false
	}
	for _, deps := range []map[string]any{m.Dependencies, m.DevDependencies, m.PeerDependencies, m.OptionalDependencies} {
		if _, ok := deps[name]; ok {
			return true
		}
		if _, ok := deps["@types/"+name]; ok && strings.HasPrefix(name, "@types/") {
			return true
		}
	}
	return false
}

// workspaces are the directories that a root manifest names, at most 200.
func workspaces(dir string, data []byte) []string {
	var m struct {
		Workspaces json.RawMessage `json:"workspaces"`
	}
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	var globs []string
	if json.Unmarshal(m.Workspaces, &globs) != nil {
		var nested struct {
			Packages []string `json:"packages"`
		}
		if json.Unmarshal(m.Workspaces, &nested) == nil {
			globs = nested.Packages
		}
	}
	for line := range strings.Lines(string(readWhole(filepath.Join(dir, "pnpm-workspace.yaml")))) {
		if t := strings.TrimSpace(line); strings.HasPrefix(t, "- ") {
			globs = append(globs, strings.Trim(t[2:], ` '"`))
		}
	}
	var out []string
	for _, g := range globs {
		if strings.Contains(g, "..") || strings.HasPrefix(g, "!") || filepath.IsAbs(g) {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(dir, strings.ReplaceAll(g, "**", "*")))
		for _, d := range found {
			if len(out) < 200 {
				out = append(out, d)
			}
		}
	}
	return out
}

// nodeState says whether a package stands in node_modules here or above.
func nodeState(dir, name string) string {
	for range maxUp {
		at := filepath.Join(dir, "node_modules", filepath.FromSlash(name))
		if _, err := os.Lstat(at); err == nil {
			var m struct {
				Name string `json:"name"`
				Main string `json:"main"`
			}
			data := readWhole(filepath.Join(at, "package.json"))
			if data == nil || json.Unmarshal(data, &m) != nil {
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

// readWhole reads a regular file of at most 16 MiB, nil if it cannot be had.
func readWhole(path string) []byte {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 16<<20 {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	if b == nil {
		b = []byte{}
	}
	return b
}
