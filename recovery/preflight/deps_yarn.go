package preflight

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/failures"
)

// yarnInStep compares yarn.lock with what yarn has written down: .yarn-integrity (version 1) or .yarn-state.yml.
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
	return verdict(missing, nil)
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
	return verdict(missing, nil)
}

// berryBlock is one entry of a yarn.lock of version 2 or later.
type berryBlock struct {
	locator     string
	conditional bool     // only for other systems, perhaps
	needs       []string // descriptors, without those that are optional
}

// berryBlocks are the entries by descriptor: name@npm:range.
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

// reachable are the locators that the project's own packages need on every system.
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

// plainLocator is name@npm:version without the hash of its peers.
func plainLocator(s string) string {
	name, ref, ok := strings.Cut(s, "@virtual:")
	if !ok {
		return s
	}
	_, ref, _ = strings.Cut(ref, "#")
	return name + "@" + ref
}
