// Package provides asks the system's package managers which package contains a program. It asks only for what lies on
// the disk already: the database of command-not-found, the index of apt-file, the metadata of dnf, apk, pacman and
// zypper. No question uses the network, changes anything, or waits for longer than a few seconds.
//
// The answers are names of packages in the repositories that the operator has configured. The package never looks in a
// registry such as npm or PyPI, where anybody can own the name of a missing program.
package provides

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
)

const (
	patience     = 5 * time.Second // for one question
	mostPackages = 5               // in one answer
)

// Index answers for one system. Many goroutines may use it. It asks each question once.
type Index struct {
	managers []string
	ask      func(ctx context.Context, argv ...string) ([]byte, error)

	mu        sync.Mutex
	providers map[string][]string
	packages  map[string]bool
}

// New returns the index of the package managers with these ids, as in the catalog. The first one that knows an answer
// gives it.
func New(managers []string) *Index {
	return &Index{managers: managers, ask: func(ctx context.Context, argv ...string) ([]byte, error) {
		return proc.System(ctx, "/", argv...)
	}, providers: map[string][]string{}, packages: map[string]bool{}}
}

// plain matches the names that superloop asks for. A name never begins with a dash, so it is no option.
var plain = pattern.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$`)

// Providers returns the names of the packages that contain a program, at most mostPackages: first one with the program's
// name, then the shorter names. It returns nil if no index here knows the program.
func (x *Index) Providers(program string) []string {
	if !plain().MatchString(program) {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if known, ok := x.providers[program]; ok {
		return known
	}
	var found []string
	for _, m := range x.managers {
		for _, q := range questions[m] {
			out, err := x.answer(q.argv(program))
			if err == nil || len(out) > 0 { // command-not-found fails whatever it knows
				found = append(found, q.read(program, string(out))...)
			}
			if len(found) > 0 {
				break
			}
		}
		if len(found) > 0 {
			break
		}
	}
	found = slices.DeleteFunc(found, func(p string) bool { return !plain().MatchString(p) })
	slices.SortFunc(found, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == program:
			return -1
		case b == program:
			return 1
		case len(a) != len(b):
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	found = slices.Compact(found)
	found = found[:min(len(found), mostPackages)]
	x.providers[program] = found
	return found
}

// Package reports whether there is a package of that name. It returns false if no index here knows.
func (x *Index) Package(name string) bool {
	if !plain().MatchString(name) {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	is, known := x.packages[name]
	if known {
		return is
	}
	for _, m := range x.managers {
		argv, ok := map[string][]string{
			"apt": {"apt-cache", "show", "--no-all-versions", name}, "dnf": {"dnf", "--quiet", "--cacheonly", "repoquery", "--qf", "%{name}\n", name},
			"apk": {"apk", "search", "--quiet", "--exact", name}, "pacman": {"pacman", "-Si", name},
			"zypper": {"zypper", "--non-interactive", "--no-refresh", "--quiet", "search", "--match-exact", "--type", "package", name},
		}[m]
		if !ok {
			continue
		}
		out, err := x.answer(argv)
		if is = err == nil && strings.Contains(string(out), name); is {
			break
		}
	}
	x.packages[name] = is
	return is
}

func (x *Index) answer(argv []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return x.ask(ctx, argv...)
}

// question is one way to ask for a program.
type question struct {
	argv func(program string) []string
	read func(program, answer string) []string
}

// questions are the ways of each package manager, the quickest first.
var questions = map[string][]question{
	"apt": {
		{words("/usr/lib/command-not-found", "--ignore-installed", "--no-failure-msg", "{}"), commandNotFound},
		{words("apt-file", "search", "--fixed-string", "/usr/bin/{}"), files}, // a regular expression takes seconds
		{words("apt-file", "search", "--fixed-string", "/usr/sbin/{}"), files},
	},
	"dnf": {{func(p string) []string {
		return []string{"dnf", "--quiet", "--cacheonly", "repoquery", "--qf", "%{name}\n", "--whatprovides", "/usr/bin/" + p}
	}, lines}},
	"yum": {{func(p string) []string {
		return []string{"yum", "--quiet", "--cacheonly", "repoquery", "--qf", "%{name}\n", "--whatprovides", "/usr/bin/" + p}
	}, lines}},
	"apk":    {{words("apk", "search", "--quiet", "--exact", "cmd:{}"), lines}},
	"pacman": {{words("pacman", "-F", "--machinereadable", "usr/bin/{}"), machineReadable}},
	"zypper": {{words("zypper", "--non-interactive", "--no-refresh", "--quiet", "search", "--provides", "--match-exact", "/usr/bin/{}"), table}},
	"brew":   {{words("brew", "which-formula", "{}"), lines}},
}

// words returns a function that puts the program in the place of {} in the words.
func words(argv ...string) func(string) []string {
	return func(program string) []string {
		out := slices.Clone(argv)
		for i := range out {
			out[i] = strings.ReplaceAll(out[i], "{}", program)
		}
		return out
	}
}

var aptInstall = pattern.Lazy(`^\s*(?:sudo )?apt(?:-get)? install ([A-Za-z0-9][A-Za-z0-9.+-]*)`)

// commandNotFound reads the lines "apt install PACKAGE", and leaves out those for other programs of a similar name.
func commandNotFound(program, answer string) []string {
	var out []string
	if strings.Contains(answer, "did you mean") || !strings.Contains(answer, program) {
		return nil
	}
	for line := range strings.Lines(answer) {
		if m := aptInstall().FindStringSubmatch(line); m != nil {
			out = append(out, m[1])
		}
	}
	return out
}

// files reads lines of a package and a file, and takes the files of directories in PATH.
func files(program, answer string) []string {
	var out []string
	for line := range strings.Lines(answer) {
		pkg, file, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch path.Dir(file) {
		case "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/games":
			if path.Base(file) == program {
				out = append(out, pkg)
			}
		}
	}
	return out
}

func lines(_, answer string) []string { return strings.Fields(answer) }

// machineReadable reads records of repository, package, version and path, separated by NUL.
func machineReadable(program, answer string) []string {
	var out []string
	for line := range strings.Lines(answer) {
		if f := strings.Split(strings.TrimSpace(line), "\x00"); len(f) == 4 && path.Base(f[3]) == program {
			out = append(out, f[1])
		}
	}
	return out
}

// table reads the second column of a table.
func table(_, answer string) []string {
	var out []string
	for line := range strings.Lines(answer) {
		if f := strings.Split(line, "|"); len(f) > 2 {
			if name := strings.TrimSpace(f[1]); name != "" && name != "Name" {
				out = append(out, name)
			}
		}
	}
	return out
}
