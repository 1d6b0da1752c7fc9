package remedy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// ByItself reports whether the engine may carry an option out without an operator, as far as the option itself is
// concerned; what it allows, the policy must allow too. What it refuses stays refused whatever the policy lists: the
// policy grants a text, not superloop's guess that the text is the remedy.
//
// What the tester proposes is judged by the policy alone, but for failures of the code and for a confidence that is
// low.
func ByItself(o Option, f classify.Failure) (bool, string) {
	tester := o.proposal != nil
	switch {
	case f.Code:
		return false, "only a change of the code can fix the failure"
	case o.Executor != catalog.ByWrapper:
		return false, "it is not superloop that can do it"
	case o.Availability == Locked:
		return false, o.LockReason
	case o.Availability != Ready:
		return false, o.ImpossibleReason
	case len(o.Steps) == 0:
		return false, "there is nothing to run"
	case o.Plain() && f.Weak:
		return false, "the code may be to blame as well"
	case o.Plain():
		return true, ""
	case Word(o.Confidence) == low:
		return false, "its confidence is low"
	case tester:
		return true, ""
	case f.Weak:
		return false, "the code may be to blame as well"
	case slices.Contains([]string{"permission_denied", "disk_full", "resources", "auth"}, f.Category): // whatever is listed
		return false, "an operator decides about rights, space, memory and secrets"
	case o.Demoted != "":
		return false, o.Demoted
	case o.ProposalOnly:
		return false, "an operator decides about this approach, always"
	case o.Foreign != "":
		return false, o.Foreign + " stands in the repository, where an agent can write"
	case o.Risk != catalog.RiskLow && o.Risk != catalog.RiskMedium:
		return false, "its risk is " + string(o.Risk)
	}
	for _, s := range o.Steps {
		if why := refuseStep(s, f); why != "" {
			return false, why
		}
	}
	a := recovery.Analyse(o.Command)
	switch {
	case a.Privileged != "":
		return false, "it runs with other rights: " + text.Display(a.Privileged)
	case a.State != "":
		return false, "it touches superloop's own files: " + text.Display(a.State)
	}
	return true, ""
}

// refuseStep says why one step is never the engine's own decision.
func refuseStep(s Step, f classify.Failure) string {
	argv := s.Argv
	program := filepath.Base(argv[0])
	switch {
	case s.Sudo || program == "sudo" || program == "doas" || program == "su":
		return "it changes the system with the superuser's rights"
	case slices.Contains([]string{"kill", "pkill", "killall", "fuser", "xkill", "skill"}, program):
		if !ownProcess(argv, f) {
			return "it ends processes that are not known to be superloop's own"
		}
	case slices.Contains([]string{"systemctl", "service", "launchctl", "rc-service", "docker", "podman", "docker-compose", "pg_ctl", "brew"}, program):
		return "it touches services or what others use"
	case slices.Contains([]string{"rm", "rmdir", "mv", "chmod", "chown", "find", "truncate", "shred", "ln", "install", "cp"}, program):
		for _, a := range argv[1:] {
			if program == "rm" && staleLock(a, f) {
				continue
			}
			if leavesProject(a, s.Dir) {
				return "it may change what is outside the repository"
			}
		}
	}
	if cleansCache(program, argv[1:]) {
		return "it cleans what is outside the repository"
	}
	for _, a := range argv {
		if strings.Contains(a, ".superloop") {
			return "it touches superloop's own files"
		}
	}
	return ""
}

// staleLock reports whether a word is the lock that a probe has found nobody to hold.
func staleLock(word string, f classify.Failure) bool {
	lock := f.Captures["lock"]
	held := f.Findings[classify.ProbeLockHolder]
	return lock != "" && held.Holds == classify.No && held.Value == "stale" && strings.HasSuffix(lock, ".lock") &&
		(word == lock || f.Dir != "" && filepath.Join(f.Dir, word) == filepath.Clean(lock))
}

// leavesProject reports whether a word, taken for a path, may lead out of the directory.
func leavesProject(word, dir string) bool {
	switch {
	case strings.HasPrefix(word, "-"):
		return strings.Contains(word, "/")
	case strings.HasPrefix(word, "~"), strings.ContainsAny(word, "$`"):
		return true
	case filepath.IsAbs(word):
		return dir == "" || filepath.Clean(word) == filepath.Clean(dir) || !within(dir, filepath.Clean(word))
	}
	clean := filepath.Clean(word)
	return clean == "." || clean == ".git" || strings.HasPrefix(clean, ".git/") || clean == ".." || strings.HasPrefix(clean, "../")
}

// cleansCache reports whether a command empties a store that other projects use. Left out are two that only put right
// what the tool makes again by itself, and that the suggested list of commands has: npm cache verify, go clean -cache.
func cleansCache(program string, args []string) bool {
	words := strings.Join(args, " ") + " "
	switch program {
	case "go":
		return slices.Contains(args, "-modcache") || slices.Contains(args, "-fuzzcache")
	case "apt", "apt-get", "dnf", "yum", "apk", "zypper":
		return slices.ContainsFunc(args, func(a string) bool {
			return slices.Contains([]string{"clean", "autoclean", "autoremove", "purge", "remove"}, a)
		})
	case "pip3", "uv", "poetry", "conda":
		program = "pip"
	case "python3":
		program = "python"
	case "sccache":
		program = "ccache"
	}
	return slices.ContainsFunc(map[string][]string{
		"npm": {"cache clean", "cache clear", "cache rm"}, "yarn": {"cache clean", "cache clear"},
		"pnpm": {"store prune", "cache delete"}, "bun": {"pm cache rm"}, "composer": {"clear-cache", "clearcache", "cc"},
		"pip":    {"cache purge", "cache remove", "cache clean", "cache clear", "cache prune", "clean"},
		"python": {"-m pip cache purge", "-m pip cache remove"}, "ccache": {"-C", "--clear", "-c", "--cleanup"},
	}[program], func(prefix string) bool { return strings.HasPrefix(words, prefix+" ") })
}

// ownProcess reports whether a command ends nothing but the process that a probe has found to be superloop's own.
func ownProcess(argv []string, f classify.Failure) bool {
	owner := f.Findings["port_owner"]
	if filepath.Base(argv[0]) != "kill" || owner.Holds != classify.Yes || !isNumber(owner.Value) || owner.Value == "0" || owner.Value == "1" {
		return false
	}
	for _, a := range argv[1:] {
		if a != owner.Value && a != "-TERM" && a != "-15" && a != "-KILL" && a != "-9" {
			return false
		}
	}
	return true
}
