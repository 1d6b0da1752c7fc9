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
	Dependencies    map[string]string `json:"dependencies"` // Dependencies and DevDependencies are set for the project itself
	DevDependencies map[string]string `json:"devDependencies"`
}

const (
	maxDirect    = 60 // packages whose package.json is read for the version
	notInstalled = "not installed"
)

// npmInStep compares package-lock.json with npm's record of the installed packages. Optional packages may be missing.
// The packages for development may be missing if all of them are (npm ci --omit=dev).
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
			ok = false // npm has installed the package, and somebody has removed it
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

// tally collects the results for the packages of a lock file.
type tally struct {
	missing, other, dev []string // dev: the missing packages for development
	devs                int      // the number of installed packages for development
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

// verdict counts missing packages for development only if some of them are installed. If none is, they were left out on
// purpose.
func (t *tally) verdict() (state, why string) {
	if t.devs > 0 {
		t.missing = append(t.missing, t.dev...)
	}
	if state, why = verdict(notInstalled, t.missing); state == failures.CheckOK {
		state, why = verdict("installed in another version than the lock file says", t.other)
	}
	return state, why
}

// nodeVersion returns the version of an installed package, or "" if its package.json names none.
func nodeVersion(dir string) string {
	p, _ := manifest.PackageJSON(readLock(dir, "package.json"))
	return p.Version
}

// pnpmInStep compares the packages of pnpm-lock.yaml with pnpm's copy of the lock file of its last installation.
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

// pnpmPackages returns the packages of a lock file, as name and version, with their purpose ("", dev, optional). In
// newer files the flags are in the section snapshots.
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
			if section == "snapshots" { // the key also names the peers of the package
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

// bunInStep looks in node_modules for the packages that package.json declares, because bun keeps no record of what it
// has installed.
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

// bunVersions returns the versions of the top-level packages of a bun.lock, from lines like "name": ["name@1.2.3",
// ...].
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

// yarnInStep compares yarn.lock with yarn's record of the installed packages: .yarn-integrity (version 1) or
// .yarn-state.yml.
func yarnInStep(dir string) (state, why string) {
	lock := string(readLock(dir, "yarn.lock"))
	if strings.Contains(lock, "\n__metadata:") || strings.HasPrefix(lock, "__metadata:") {
		return yarnBerry(dir, lock)
	}
	var want []string
	for line := range strings.Lines(lock) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == ' ' || line[0] == '#' || !strings.HasSuffix(line, ":") {
			continue
		}
		for _, p := range strings.Split(strings.TrimSuffix(line, ":"), ", ") {
			want = append(want, strings.Trim(p, `"`))
		}
	}
	if len(want) == 0 {
		return failures.CheckOK, ""
	}
	if !isDir(filepath.Join(dir, "node_modules")) {
		return failures.CheckBroken, "node_modules is not there"
	}
	var have struct {
		Entries map[string]string `json:"lockfileEntries"`
		Flags   []string          `json:"flags"`
	}
	data := readLock(dir, "node_modules", ".yarn-integrity")
	if data == nil || json.Unmarshal(data, &have) != nil {
		return failures.CheckUnknown, "yarn has not written down what it installed"
	}
	if slices.Contains(have.Flags, "production") {
		return failures.CheckUnknown, "only what production needs is installed"
	}
	var missing []string
	for _, w := range want {
		if _, ok := have.Entries[w]; !ok {
			missing = append(missing, w)
		}
	}
	return verdict(notInstalled, missing)
}

func yarnBerry(dir, lock string) (state, why string) {
	data := readLock(dir, "node_modules", ".yarn-state.yml")
	if data == nil {
		for _, pnp := range []string{".pnp.cjs", ".pnp.js"} {
			if isFile(filepath.Join(dir, pnp)) {
				return failures.CheckUnknown, "yarn keeps its packages in archives"
			}
		}
		if !isDir(filepath.Join(dir, "node_modules")) && strings.Contains(lock, "@npm:") {
			return failures.CheckBroken, "neither node_modules nor .pnp.cjs is there"
		}
		return failures.CheckUnknown, "yarn has not written down what it installed"
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, " ") {
			l := plainLocator(strings.Trim(strings.TrimSuffix(strings.TrimSpace(line), ":"), `"`))
			have[l] = true
			if name, _, patched := strings.Cut(l, "@patch:"); patched {
				have[name] = true
			}
		}
	}
	var missing []string
	for _, locator := range reachable(berryBlocks(lock)) {
		name, version, npm := strings.Cut(locator, "@npm:")
		if npm && !have[locator] && !have[name] {
			missing = append(missing, name+" "+version)
		}
	}
	return verdict(notInstalled, missing)
}

// berryBlock is one entry of a yarn.lock of version 2 or later.
type berryBlock struct {
	locator     string
	conditional bool     // the package may be for other systems only
	needs       []string // descriptors, without optional dependencies
}

// berryBlocks returns the entries of a yarn.lock by descriptor (name@npm:range).
func berryBlocks(lock string) map[string]*berryBlock {
	out := map[string]*berryBlock{}
	for _, text := range strings.Split(lock, "\n\n") {
		b := &berryBlock{}
		optional := map[string]bool{}
		section, name := "", ""
		var heads []string
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			key, value = strings.Trim(key, `":`), strings.Trim(value, `"`)
			switch indent := len(line) - len(strings.TrimLeft(line, " ")); {
			case indent == 0 && strings.HasSuffix(line, ":"):
				heads = strings.Split(strings.Trim(strings.TrimSuffix(line, ":"), `"`), ", ")
			case indent == 2:
				section = key
				b.conditional = b.conditional || key == "conditions"
				if key == "resolution" {
					b.locator = plainLocator(value)
				}
			case indent == 4 && section == "dependencies":
				b.needs = append(b.needs, key+"@"+value)
			case indent == 4:
				name = key
			case indent == 6 && section == "dependenciesMeta" && key == "optional" && value == "true":
				optional[name] = true
			}
		}
		b.needs = slices.DeleteFunc(b.needs, func(d string) bool {
			at := strings.LastIndex(d, "@npm:")
			return at > 0 && optional[d[:at]]
		})
		for _, h := range heads {
			out[h] = b
		}
	}
	return out
}

// reachable returns the locators of the packages that the project's own packages need on every system.
func reachable(blocks map[string]*berryBlock) []string {
	var todo []*berryBlock
	seen := map[*berryBlock]bool{}
	for _, b := range blocks {
		if strings.Contains(b.locator, "@workspace:") {
			todo = append(todo, b)
		}
	}
	var out []string
	for len(todo) > 0 {
		b := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if b == nil || seen[b] || b.conditional {
			continue
		}
		seen[b] = true
		out = append(out, b.locator)
		for _, d := range b.needs {
			todo = append(todo, blocks[d])
		}
	}
	return out
}

// plainLocator returns name@npm:version, without the hash of the peers.
func plainLocator(s string) string {
	name, ref, ok := strings.Cut(s, "@virtual:")
	if !ok {
		return s
	}
	_, ref, _ = strings.Cut(ref, "#")
	return name + "@" + ref
}
