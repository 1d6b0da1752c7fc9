package preflight

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/manifest"
	"github.com/superloop/superloop/recovery/failures"
)

// Step says whether the installed packages match a lock file.
type Step struct {
	State   string // a state of failures.Finding: ok, broken, unknown
	Why     string
	Command string // makes the packages match the lock file, as in the catalog's project recipes
}

// ecosystem is a package manager with its lock file, and a function that compares the installed packages with the lock
// file.
type ecosystem struct {
	manager, lock string
	inStep        func(dir string) (state, why string)
	command       string
}

// ecosystems returns the package managers of failures.Managers, in the same order.
func ecosystems() []ecosystem {
	return []ecosystem{
		{"npm", "package-lock.json", npmInStep, "npm ci"},
		{"pnpm", "pnpm-lock.yaml", pnpmInStep, "pnpm install"},
		{"yarn", "yarn.lock", yarnInStep, "yarn install"},
		{"bun", "bun.lock", bunInStep, "bun install"},
		{"pip", "requirements.txt", pipInStep, "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"},
		{"go", "go.mod", goInStep, "go mod download"},
		{"cargo", "Cargo.lock", cargoInStep, "cargo fetch"},
		{"bundler", "Gemfile.lock", bundlerInStep, "bundle install"},
	}
}

// inStep compares the packages installed in dir with the lock file of a package manager. The manager "" stands for
// every manager whose lock file exists; inStep returns the first mismatch. The state is unknown if dir does not use the
// manager, or if only the package manager itself could tell.
func inStep(dir, manager string) Step {
	best := Step{State: failures.CheckUnknown, Why: "no lock file that is known"}
	for _, e := range ecosystems() {
		if manager != "" && manager != e.manager {
			continue
		}
		s := Step{State: failures.CheckUnknown, Why: "there is no " + e.lock}
		if isFile(filepath.Join(dir, e.lock)) || e.manager == "bun" && isFile(filepath.Join(dir, "bun.lockb")) {
			s.State, s.Why = e.inStep(dir)
		}
		if s.State == failures.CheckBroken {
			s.Command = e.command
			return s
		}
		if s.State == failures.CheckOK || manager != "" {
			best = s
		}
	}
	return best
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// maxLock bounds the size of the lock files that superloop reads, in bytes. Larger files would take too long.
const maxLock = 8 << 20

// readLock reads a file of a repository. It returns nil if the file is missing, unreadable or too large.
func readLock(path ...string) []byte {
	b, err := door.Read(filepath.Join(path...), maxLock)
	if err != nil {
		return nil
	}
	return b
}

// verdict returns broken if there are names. why lists the first few names, says how many more there are, and ends with
// what.
func verdict(what string, names []string) (state, why string) {
	const show = 3
	slices.Sort(names)
	if len(names) == 0 {
		return failures.CheckOK, ""
	}
	if more := len(names) - show; more > 0 {
		what = fmt.Sprintf("and %d more %s", more, what)
	}
	return failures.CheckBroken, strings.Join(names[:min(len(names), show)], ", ") + " " + what
}

// pipInStep looks in the project's virtual environment for the packages that requirements.txt names or pins. It ignores
// requirements with markers, of other files or from URLs.
func pipInStep(dir string) (state, why string) {
	want := map[string]string{}
	for _, line := range manifest.Requirements(readLock(dir, "requirements.txt")) {
		line, _, _ = strings.Cut(line, " -") // removes --hash and similar options
		if line[0] == '-' || strings.ContainsAny(line, ";@/") {
			continue
		}
		end := strings.IndexAny(line, "[=<>!~ ")
		name, rest := line, ""
		if end >= 0 {
			name, rest = line[:end], line[end:]
		}
		_, version, _ := strings.Cut(rest, "==")
		version = strings.TrimSpace(strings.TrimPrefix(version, "="))
		if i := strings.IndexAny(version, ", *"); i >= 0 {
			version = ""
		}
		want[manifest.PythonName(name)] = version
	}
	if len(want) == 0 {
		return failures.CheckUnknown, "requirements.txt names nothing that can be judged"
	}
	var sites []string
	for _, venv := range []string{".venv", "venv"} {
		found, _ := filepath.Glob(filepath.Join(dir, venv, "lib", "python*", "site-packages")) // Glob fails only if the pattern is malformed
		sites = append(sites, found...)
	}
	if len(sites) == 0 {
		if isDir(filepath.Join(dir, ".venv")) || isDir(filepath.Join(dir, "venv")) {
			return failures.CheckBroken, "the virtual environment has no site-packages"
		}
		return failures.CheckUnknown, "there is no virtual environment in the project"
	}
	have := map[string]string{}
	for _, site := range sites {
		entries, err := os.ReadDir(site)
		if err != nil {
			return failures.CheckUnknown, err.Error()
		}
		for _, e := range entries {
			base, ok := strings.CutSuffix(e.Name(), ".dist-info")
			if name, version, cut := strings.Cut(base, "-"); ok && cut {
				have[manifest.PythonName(name)] = version
			}
		}
	}
	var t tally
	for name, version := range want {
		got, ok := have[name]
		t.add(name, ok, false, version != "" && got != version)
	}
	return t.verdict()
}

// goInStep looks for every module that go.mod requires in go.sum, and in vendor/modules.txt if the file exists.
func goInStep(dir string) (state, why string) {
	want := goRequires(readLock(dir, "go.mod"))
	if len(want) == 0 {
		return failures.CheckOK, ""
	}
	vendor := readLock(dir, "vendor", "modules.txt")
	sum := readLock(dir, "go.sum")
	have := map[string]bool{}
	for line := range strings.Lines(string(sum)) {
		if f := strings.Fields(line); len(f) == 3 {
			have[f[0]+" "+strings.TrimSuffix(f[1], "/go.mod")] = true
		}
	}
	vendored := map[string]bool{}
	for line := range strings.Lines(string(vendor)) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "#" {
			vendored[f[1]+" "+f[2]] = true
		}
	}
	var missing, behind []string
	for path, version := range want {
		switch key := path + " " + version; {
		case !have[key]:
			missing = append(missing, path)
		case vendor != nil && !vendored[key]:
			behind = append(behind, path)
		}
	}
	if state, why = verdict("not in go.sum in the version of go.mod", missing); state == failures.CheckOK {
		state, why = verdict("not in vendor/modules.txt in the version of go.mod", behind)
	}
	return state, why
}

// goRequires returns the versions of the modules that a go.mod requires, without the modules that it replaces.
func goRequires(text []byte) map[string]string {
	all := manifest.GoMod(text)
	out := map[string]string{}
	for _, d := range all {
		if d.Verb == "require" && len(d.Words) > 1 {
			out[strings.Trim(d.Words[0], `"`)] = d.Words[1]
		}
	}
	for _, d := range all {
		if d.Verb == "replace" && len(d.Words) > 0 {
			delete(out, strings.Trim(d.Words[0], `"`))
		}
	}
	return out
}

// cargoInStep looks for every dependency of Cargo.toml in Cargo.lock.
func cargoInStep(dir string) (state, why string) {
	have := manifest.CargoLock(readLock(dir, "Cargo.lock"))
	toml := readLock(dir, "Cargo.toml")
	want, ok := manifest.Cargo(toml)
	if toml == nil || !ok || len(have) == 0 {
		return failures.CheckUnknown, "Cargo.toml or Cargo.lock cannot be read"
	}
	missing := map[string]bool{}
	for _, c := range want {
		if !c.Workspace && !have[c.Package] && !have[strings.ReplaceAll(c.Package, "_", "-")] {
			missing[c.Package] = true
		}
	}
	return verdict("not in Cargo.lock", slices.Collect(maps.Keys(missing)))
}

// bundlerInStep looks for the gems of Gemfile in Gemfile.lock. If vendor/bundle exists, it also looks there for the
// gems of Gemfile.lock.
func bundlerInStep(dir string) (state, why string) {
	lock := string(readLock(dir, "Gemfile.lock"))
	declared, specs := map[string]bool{}, map[string][]string{} // a gem may be locked for several platforms
	section := ""
	for line := range strings.Lines(lock) {
		line = strings.TrimRight(line, "\r\n")
		text := strings.TrimSpace(line)
		name, _, _ := strings.Cut(text, " ")
		switch {
		case line == text && text != "":
			section = text
		case section == "DEPENDENCIES" && strings.HasPrefix(line, "  ") && text != "":
			declared[strings.TrimSuffix(name, "!")] = true
		case section == "GEM" && strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "     "):
			if _, version, ok := strings.Cut(text, " ("); ok {
				specs[name] = append(specs[name], name+"-"+strings.TrimSuffix(version, ")"))
			}
		}
	}
	var missing []string
	for line := range strings.Lines(string(readLock(dir, "Gemfile"))) {
		text := strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(text, "gem ")
		if parts := strings.FieldsFunc(rest, func(r rune) bool { return r == '"' || r == '\'' }); ok && len(parts) > 0 && !declared[strings.TrimSpace(parts[0])] {
			missing = append(missing, strings.TrimSpace(parts[0]))
		}
	}
	if len(missing) > 0 {
		return verdict("not in Gemfile.lock", missing)
	}
	homes, _ := filepath.Glob(filepath.Join(dir, "vendor", "bundle", "ruby", "*", "gems")) // Glob fails only if the pattern is malformed
	if len(homes) == 0 {
		return failures.CheckUnknown, "the gems are not kept in the project"
	}
	for name, dirs := range specs {
		if !slices.ContainsFunc(dirs, func(d string) bool { return isDir(filepath.Join(homes[0], d)) }) {
			missing = append(missing, name)
		}
	}
	return verdict(notInstalled, missing)
}
