package preflight

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
	"github.com/superloop/superloop/recovery/failures"
)

// npmPackage is one entry of packages in a package-lock.json.
type npmPackage struct {
	Version         string            `json:"version"`
	Dev             bool              `json:"dev"`
	Optional        bool              `json:"optional"`
	DevOptional     bool              `json:"devOptional"`
	Peer            bool              `json:"peer"`
	Link            bool              `json:"link"`
	Dependencies    map[string]string `json:"dependencies"` // Of the project itself
	DevDependencies map[string]string `json:"devDependencies"`
}

// maxDirect bounds how many packages are opened to see their version.
const maxDirect = 60

// npmInStep compares package-lock.json with the record of what npm has installed. Optional packages may be missing, and
// all that are only for development may be (npm ci --omit=dev), but not some of those.
func npmInStep(dir string) (state, why string) {
	var want, have struct {
		Packages map[string]npmPackage `json:"packages"`
	}
	if json.Unmarshal(readLock(dir, "package-lock.json"), &want) != nil || len(want.Packages) == 0 {
		return failures.CheckUnknown, "package-lock.json has no packages that can be read"
	}
	needed := 0
	for path, p := range want.Packages {
		if path != "" && !p.Optional && !p.DevOptional && !p.Peer && !p.Link && strings.HasPrefix(path, "node_modules/") {
			needed++
		}
	}
	if needed == 0 {
		return failures.CheckOK, ""
	}
	if !isDir(filepath.Join(dir, "node_modules")) {
		return failures.CheckBroken, "node_modules is not there"
	}
	data := readLock(dir, "node_modules", ".package-lock.json")
	if data == nil || json.Unmarshal(data, &have) != nil {
		return failures.CheckUnknown, "npm has not written down what it installed"
	}
	var t tally
	opened := 0
	direct := map[string]bool{}
	for _, deps := range []map[string]string{want.Packages[""].Dependencies, want.Packages[""].DevDependencies} {
		for name := range deps {
			direct["node_modules/"+name] = true
		}
	}
	for path, p := range want.Packages {
		if path == "" || p.Link || p.Optional || p.DevOptional || p.Peer || !strings.Contains(path, "node_modules/") {
			continue
		}
		got, ok := have.Packages[path]
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(path))); ok && err != nil {
			ok = false // npm has installed it, and somebody has taken it away
		}
		if ok && direct[path] && opened < maxDirect { // npm --package-lock-only writes its record without installing
			opened++
			if v := nodeVersion(filepath.Join(dir, filepath.FromSlash(path))); v != "" {
				got.Version = v
			}
		}
		name := path[strings.LastIndex(path, "node_modules/")+len("node_modules/"):]
		t.add(name, ok, p.Dev, got.Version != p.Version)
	}
	return t.verdict()
}

// tally is what was found of the packages of a lock file.
type tally struct {
	missing, other, dev []string // dev: those for development that are missing
	devs                int      // those for development that are there
}

func (t *tally) add(name string, there, dev, other bool) {
	switch {
	case there && other:
		t.other = append(t.other, name)
	case there && dev:
		t.devs++
	case there:
	case dev:
		t.dev = append(t.dev, name)
	default:
		t.missing = append(t.missing, name)
	}
}

// verdict counts packages for development as missing if there are some of them: else all were left out on purpose.
func (t *tally) verdict() (state, why string) {
	if t.devs > 0 {
		t.missing = append(t.missing, t.dev...)
	}
	return verdict(t.missing, t.other)
}

// nodeVersion is the version of an installed package, "" where it does not say.
func nodeVersion(dir string) string {
	p, _ := manifest.PackageJSON(readLock(dir, "package.json"))
	return p.Version
}

// verdict words what is missing and what has another version.
func verdict(missing, other []string) (state, why string) {
	slices.Sort(missing)
	slices.Sort(other)
	switch {
	case len(missing) > 0:
		return failures.CheckBroken, missingOf("not installed", missing)
	case len(other) > 0:
		return failures.CheckBroken, missingOf("installed in another version than the lock file says", other)
	}
	return failures.CheckOK, ""
}

// pnpmInStep compares the packages of pnpm-lock.yaml with those of the copy that pnpm keeps of what it has installed.
func pnpmInStep(dir string) (state, why string) {
	want, ok := pnpmPackages(readLock(dir, "pnpm-lock.yaml"))
	if !ok {
		return failures.CheckUnknown, "pnpm-lock.yaml cannot be read"
	}
	if len(want) == 0 {
		return failures.CheckOK, ""
	}
	if !isDir(filepath.Join(dir, "node_modules")) {
		return failures.CheckBroken, "node_modules is not there"
	}
	data := readLock(dir, "node_modules", ".pnpm", "lock.yaml")
	if data == nil {
		return failures.CheckUnknown, "pnpm has not written down what it installed"
	}
	have, _ := pnpmPackages(data)
	var t tally
	for name, kind := range want {
		if _, there := have[name]; kind != "optional" {
			t.add(name, there, kind == "dev", false)
		}
	}
	return t.verdict()
}

// pnpmPackages are the names with versions under packages, with what they are for ("", dev, optional); the flags of
// newer files stand under snapshots.
func pnpmPackages(data []byte) (map[string]string, bool) {
	if len(data) == 0 {
		return nil, false
	}
	out := map[string]string{}
	section, key := "", ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, " \r\n")
		indent := len(line) - len(strings.TrimLeft(line, " "))
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
		case indent == 0:
			section, key = strings.TrimSuffix(text, ":"), ""
		case section != "packages" && section != "snapshots":
		case indent == 2:
			key = strings.TrimSuffix(text, " {}")
			key = strings.Trim(strings.TrimSuffix(key, ":"), `'"`)
			key = strings.TrimPrefix(key, "/")
			if section == "snapshots" { // with the peers that it was resolved with
				key, _, _ = strings.Cut(key, "(")
			}
			if _, known := out[key]; !known && section == "packages" {
				out[key] = ""
			}
		case indent == 4 && text == "optional: true":
			if _, known := out[key]; known {
				out[key] = "optional"
			}
		case indent == 4 && text == "dev: true":
			if out[key] == "" {
				out[key] = "dev"
			}
		}
	}
	return out, true
}

// bunInStep looks for what package.json declares, since bun writes nothing down.
func bunInStep(dir string) (state, why string) {
	m, ok := manifest.PackageJSON(readLock(dir, "package.json"))
	if !ok {
		return failures.CheckUnknown, "package.json cannot be read"
	}
	if len(m.Dependencies)+len(m.DevDependencies) == 0 {
		return failures.CheckOK, ""
	}
	if !isDir(filepath.Join(dir, "node_modules")) {
		return failures.CheckBroken, "node_modules is not there"
	}
	locked := bunVersions(string(readLock(dir, "bun.lock")))
	var t tally
	for _, deps := range []map[string]string{m.Dependencies, m.DevDependencies} {
		for name := range deps {
			home := filepath.Join(dir, "node_modules", filepath.FromSlash(name))
			there := isFile(filepath.Join(home, "package.json"))
			_, isDev := m.DevDependencies[name]
			t.add(name, there, isDev, locked[name] != "" && nodeVersion(home) != locked[name])
		}
	}
	return t.verdict()
}

// bunVersions are the versions of the top-level packages of a bun.lock: lines like "name": ["name@1.2.3", ...].
func bunVersions(lock string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(lock) {
		key, rest, ok := strings.Cut(strings.TrimSpace(line), `": ["`)
		name := strings.TrimPrefix(key, `"`)
		if !ok || name == key {
			continue
		}
		ref, _, _ := strings.Cut(rest, `"`)
		if version, ok := strings.CutPrefix(ref, name+"@"); ok && version != "" && version[0] >= '0' && version[0] <= '9' {
			out[name] = version
		}
	}
	return out
}
