// Package project finds out how a repository is built and tested, and which agent CLIs this machine has. It makes the
// first configuration from that. It only reads files.
package project

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/remedy"
)

// Facts are the findings about a repository. A text is empty, and a list too, if nothing was found.
type Facts struct {
	// Managers are the package managers: npm, pnpm, cargo, go, ... Manager is the first of them.
	Manager  string   `json:"manager,omitempty"`
	Managers []string `json:"managers"`
	// Tests are the commands that run the tests, in the order in which they are to run.
	Tests []Test `json:"tests"`
	// Checks are other commands that a completion could depend on, such as npm run build.
	Checks []string `json:"checks"`
	// Installs are the commands that install what the repository declares and that renew caches. They may run twice.
	Installs []string `json:"installs"`
	// Notes are sentences about what was found and is not among the above, and about what is missing.
	Notes []string `json:"notes"`
	// Agents are the agent CLIs on PATH, in order of preference.
	Agents []string `json:"agents"`
}

// Test is a command that runs tests. bash runs it at the top of the repository. From names the file that tells of it.
type Test struct {
	Command string `json:"command"`
	From    string `json:"from"`
}

// agents are the CLIs for which init can write a runner, in order of preference.
var agents = []string{"claude", "codex", "gemini", "opencode", "qwen", "copilot", "pi"}

// The bounds of the search for projects. A directory is searched to maxDepth levels below the top.
const (
	maxDepth = 2
	maxDirs  = 2000 // directories that are looked at
	maxTests = 12   // test commands
	maxRead  = 4 << 20
	maxFiles = 50 // files of tests that are read, per directory
)

// passedOver are directories that hold copies, products or examples, and no project that is to be tested by itself.
// Directories whose names begin with a dot are passed over as well.
var passedOver = []string{"node_modules", "vendor", "third_party", "target", "dist", "build", "out", "testdata", "fixtures", "examples", "example",
	"coverage", "env", "venv", "__pycache__", "deps", "_build"}

// Look returns the facts about a repository. lookPath finds a program on PATH.
func Look(repo string, lookPath func(string) (string, error)) (Facts, error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return Facts{}, err
	}
	s := search{repo: repo, cat: cat, lookPath: lookPath,
		facts: Facts{Managers: []string{}, Tests: []Test{}, Checks: []string{}, Installs: []string{}, Notes: []string{}, Agents: []string{}}}
	for _, name := range agents {
		if _, err := lookPath(name); err == nil {
			s.facts.Agents = append(s.facts.Agents, name)
		}
	}
	s.look(".", above{})
	for _, l := range s.left {
		more := ""
		if n := len(l.commands) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		s.note("%s%s left out: %s; --test names the tests instead", l.commands[0], more, l.why)
	}
	s.facts.Manager = append(s.facts.Managers, "")[0]
	return s.facts, nil
}

// search looks at the directories of a repository, each before those below it.
type search struct {
	repo     string
	cat      *catalog.Catalog
	lookPath func(string) (string, error)
	facts    Facts
	dirs     int
	left     []left
}

// left holds the test commands that are left out for one reason.
type left struct {
	why      string
	commands []string
}

// above holds what was found in a directory and in those above it.
type above struct {
	depth  int
	tested bool
	found  map[string]finding // by ecosystem
}

// look adds what a directory tells, and what those below it tell. dir is relative to the repository.
func (s *search) look(dir string, up above) {
	if s.dirs++; s.dirs > maxDirs {
		return
	}
	here := above{depth: up.depth + 1, tested: up.tested, found: maps.Clone(up.found)}
	if here.found == nil {
		here.found = map[string]finding{}
	}
	for _, k := range kinds {
		over := up.found[k.ecosystem]
		f := k.find(place{s.repo, filepath.Join(s.repo, dir), up.depth > 0})
		if f.manager == "" && f.test == "" {
			continue
		}
		f.installs = s.installs(dir, k.ecosystem, f, over)
		f.from = path.Join(dir, f.from)
		switch {
		case f.test == "":
		case over.test != "":
			s.leave(in(dir, f.test), over.test+" stands above it")
			f = finding{manager: f.manager, installs: f.installs}
		case k.ecosystem == tasks && here.tested:
			s.leave(f.test, "the project's own tests are found without it")
			f = finding{}
		}
		s.take(dir, f)
		here.tested = here.tested || f.test != ""
		f.test = cmp.Or(f.test, over.test)
		here.found[k.ecosystem] = f
	}
	if up.depth == maxDepth {
		return
	}
	entries, err := os.ReadDir(filepath.Join(s.repo, dir))
	if err != nil {
		return // a directory that cannot be read tells nothing
	}
	for _, e := range entries {
		if e.IsDir() && e.Name()[0] != '.' && !slices.Contains(passedOver, e.Name()) {
			s.look(path.Join(dir, e.Name()), here)
		}
	}
}

func (s *search) leave(command, why string) {
	i := slices.IndexFunc(s.left, func(l left) bool { return l.why == why })
	if i < 0 {
		i = len(s.left)
		s.left = append(s.left, left{why: why})
	}
	s.left[i].commands = append(s.left[i].commands, command)
}

// take adds one finding to the facts.
func (s *search) take(dir string, f finding) {
	add := func(list *[]string, more ...string) {
		for _, m := range more {
			if m != "" && !slices.Contains(*list, m) {
				*list = append(*list, m)
			}
		}
	}
	add(&s.facts.Managers, f.manager)
	add(&s.facts.Installs, f.installs...)
	for _, c := range f.checks {
		add(&s.facts.Checks, in(dir, c))
	}
	if f.test == "" {
		return
	}
	test := Test{in(dir, f.test), f.from}
	if f.note != "" {
		s.note("%s: %s", test.Command, f.note)
	}
	if len(s.facts.Tests) == maxTests {
		s.leave(test.Command, fmt.Sprintf("there are %d test commands already", maxTests))
		return
	}
	s.facts.Tests = append(s.facts.Tests, test)
	if program, _, _ := strings.Cut(f.test, " "); !strings.Contains(program, "/") {
		if _, err := s.lookPath(program); err != nil {
			s.note("%s is not on PATH: %s fails until it is", program, test.Command)
		}
	}
}

func (s *search) note(format string, args ...any) {
	s.facts.Notes = append(s.facts.Notes, fmt.Sprintf(format, args...))
}

// installs returns the commands that install the packages of a finding. A member of a workspace has none of its own:
// the project above it installs them.
func (s *search) installs(dir, ecosystem string, f, over finding) []string {
	list, locked := remedy.Installs(s.cat, s.repo, filepath.Join(s.repo, dir), ecosystem)
	if len(over.installs) > 0 && !locked {
		return nil
	}
	return append(list, more[cmp.Or(f.manager, ecosystem)]...)
}

// more holds the commands besides the catalog's project recipes with which the remedies of a package manager renew
// what is missing. They change no version that is declared and delete nothing but a cache that the tool fills again.
var more = map[string][]string{
	"npm":    {"npm cache verify"},
	"go":     {"go mod tidy", "go clean -cache"}, // tidy adds the checksums that go.sum lacks
	"dotnet": {"dotnet restore"},
	"mix":    {"mix deps.get"},
}

// in returns a command as bash runs it at the top of the repository.
func in(dir, command string) string {
	if dir == "." {
		return command
	}
	return "cd " + text.Word(dir) + " && " + command
}

// place is a directory of the repository.
type place struct {
	repo  string // the top of the repository
	dir   string
	below bool // it is not the top
}

// has returns the first of these files and directories that exists, or "".
func (p place) has(names ...string) string {
	for _, n := range names {
		if _, err := os.Stat(filepath.Join(p.dir, n)); err == nil {
			return n
		}
	}
	return ""
}

// like returns the names of the files that match a glob pattern, at most maxFiles.
func (p place) like(pattern string) []string {
	hits, _ := filepath.Glob(filepath.Join(globQuote(p.dir), pattern)) // it fails for an invalid pattern only
	for i, h := range hits {
		hits[i], _ = filepath.Rel(p.dir, h) // a hit is below dir
	}
	return hits[:min(len(hits), maxFiles)]
}

func globQuote(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// read returns the content of a file, or nil if it cannot be read or has more than maxRead bytes.
func (p place) read(name string) []byte {
	data, _ := door.Read(filepath.Join(p.dir, name), maxRead)
	return data
}

// names returns the first of these files that holds one of the texts, or "".
func (p place) names(texts []string, files ...string) string {
	for _, f := range files {
		data := string(p.read(f))
		if slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(data, t) }) {
			return f
		}
	}
	return ""
}
