package classify

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/manifest"
)

// maxUp bounds how many directories above the command's are searched for manifests; the search ends at a repository's
// root.
const maxUp = 6

// declared says whether the project declares a package, and whether it is installed. The name may be one that is
// imported: a/b of a package a, or a Python module whose distribution is called otherwise.
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

// workspaces are the directories that a root manifest names, at most 200.
func workspaces(dir string, m manifest.Package) []string {
	globs := append(m.Workspaces, manifest.YAMLList(readWhole(filepath.Join(dir, "pnpm-workspace.yaml")), "packages")...)
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
			file := filepath.Join(at, "package.json")
			if info, err := os.Lstat(file); err == nil && info.Mode()&os.ModeSymlink != 0 {
				return "installed" // bun can install by links, and no link is read
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

// readWhole reads a regular file of at most 16 MiB, nil if it cannot be had.
func readWhole(path string) []byte {
	b, err := durable.Read(path, 16<<20)
	if err != nil {
		return nil
	}
	return b
}
