package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/failures"
)

// Step says whether what is installed is what a lock file says.
type Step struct {
	Manager string
	State   string // ok, broken, unknown
	Why     string
	Command string // Command brings it in step, as the catalog's project recipes have it
}

// Memo remembers pairs of files that were in step, by size and time, so that they are read again only when one of them
// has changed. It is safe for concurrent use.
type Memo struct {
	mu   sync.Mutex
	seen map[string]string
}

// maxMemo bounds a Memo.
const maxMemo = 200

func (m *Memo) knows(key, stamp string) bool {
	if m == nil || stamp == "" {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[key] == stamp
}

func (m *Memo) keep(key, stamp string) {
	if m == nil || stamp == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil || len(m.seen) >= maxMemo {
		m.seen = map[string]string{}
	}
	m.seen[key] = stamp
}

// stampOf is the size and time of files, "" when one of them is not there.
func stampOf(paths ...string) string {
	out := ""
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return ""
		}
		out += fmt.Sprintf("%d/%d;", info.Size(), info.ModTime().UnixNano())
	}
	return out
}

// inStep compares what is installed in dir with its lock file. manager "" is every one whose lock file is there; the
// first that is broken is told. What is not used in dir, or cannot be judged without running its tool, is unknown.
func inStep(dir, manager string, memo *Memo) Step {
	if manager != "" {
		return oneInStep(dir, manager, memo)
	}
	best := Step{State: failures.CheckUnknown, Why: "no lock file that is known"}
	for _, m := range failures.Managers() {
		s := oneInStep(dir, m, memo)
		if s.State == failures.CheckBroken {
			return s
		}
		if s.State == failures.CheckOK {
			best = s
		}
	}
	return best
}

func oneInStep(dir, manager string, memo *Memo) Step {
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	s := Step{Manager: manager, State: failures.CheckUnknown}
	var lock, installed string
	var compare func(dir string) (state, why string)
	switch manager {
	case "npm":
		lock, installed, compare, s.Command = "package-lock.json", "node_modules/.package-lock.json", npmInStep, "npm ci"
	case "pnpm":
		lock, installed, compare, s.Command = "pnpm-lock.yaml", "node_modules/.pnpm/lock.yaml", pnpmInStep, "pnpm install"
	case "yarn":
		lock, installed, compare, s.Command = "yarn.lock", "node_modules", yarnInStep, "yarn install"
	case "bun":
		lock, installed, compare, s.Command = "bun.lock", "node_modules", bunInStep, "bun install"
	case "pip":
		lock, installed, compare, s.Command = "requirements.txt", ".venv", pipInStep, "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"
	case "go":
		lock, installed, compare, s.Command = "go.mod", "go.sum", goInStep, "go mod download"
	case "cargo":
		lock, installed, compare, s.Command = "Cargo.lock", "Cargo.toml", cargoInStep, "cargo fetch"
	case "bundler":
		lock, installed, compare, s.Command = "Gemfile.lock", "Gemfile", bundlerInStep, "bundle install"
	default:
		s.Why = "no such manager"
		return s
	}
	if manager == "bun" && !isFile(at(lock)) && isFile(at("bun.lockb")) {
		lock = "bun.lockb"
	}
	if !isFile(at(lock)) {
		s.Why, s.Command = "there is no "+lock, ""
		return s
	}
	modules := "." // the directory whose time tells that a package came or went
	if manager == "npm" || manager == "pnpm" {
		modules = "node_modules"
	}
	stamp := stampOf(at(lock), at(installed), filepath.Dir(at(installed)), at(modules))
	key := manager + "\x00" + dir
	if memo.knows(key, stamp) {
		s.State, s.Command = failures.CheckOK, ""
		return s
	}
	s.State, s.Why = compare(dir)
	if s.State != failures.CheckBroken {
		s.Command = ""
	}
	// Elsewhere than for these a package may be gone while the files and directories look the same.
	if s.State == failures.CheckOK && slices.Contains([]string{"npm", "pnpm", "cargo"}, manager) {
		memo.keep(key, stamp)
	}
	return s
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// maxLock bounds the lock files that are read, in bytes: larger ones would take too long.
const maxLock = 8 << 20

// readLock reads a file of a repository, nil when there is none to read.
func readLock(path ...string) []byte {
	b, err := durable.Read(filepath.Join(path...), maxLock)
	if err != nil {
		return nil
	}
	return b
}

// missingOf words what is not there: the first few, and how many more.
func missingOf(what string, names []string) string {
	const show = 3
	if more := len(names) - show; more > 0 {
		what = fmt.Sprintf("and %d more %s", more, what)
	}
	return strings.Join(names[:min(len(names), show)], ", ") + " " + what
}
