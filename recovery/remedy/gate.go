package remedy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// What happens with a plan.
const (
	GateAuto    = "auto"    // an option runs now
	GateRetry   = "retry"   // the failed command runs again, by itself
	GatePropose = "propose" // a command is put before an operator
	GateHuman   = "human"   // an operator is asked, and there is no command to put before them
	GateNone    = "none"    // nothing: the loop goes on, and what helps is what an agent changes
)

// Gate says what would happen with a plan under a policy, and with which option; for human and none the option may be
// nil. It looks at nothing but its arguments: the input guard, the sandbox, the budget and the cool-down come
// afterwards and can only make it stricter. A nil policy lists nothing.
//
// A plain retry needs no listing, since it runs what the loop runs anyway, and it comes before all that changes
// something; the cheapest remedy first. A chain's general approach does not run while what a handler recommends was not
// tried: it knows the failure better.
func Gate(p *Plan, policy *recovery.Policy) (string, *Option) {
	if p.Failure.Code {
		return GateNone, nil
	}
	if o := p.retry(); o != nil && !p.Options[0].pressing {
		return GateRetry, o
	}
	personFirst := len(p.Options) > 0 && p.Options[0].Recommended && p.Options[0].Executor == catalog.ByHuman
	particular := len(p.Options) > 0 && p.Options[0].Recommended && p.Options[0].From.Kind == FromHandler
	var propose *Option
	for i := range p.Options {
		o := &p.Options[i]
		if o.Executor != catalog.ByWrapper || o.Availability == Impossible || o.Plain() || o.Command == "" {
			continue
		}
		v := decide(policy, o)
		free := ByItselfUnlocked(*o, p.Failure)
		free = free && (o.From.Kind != FromChain || o.Recommended || !particular && !p.advised)
		switch {
		case free && v.Decision == action.Auto && !(personFirst && o.proposal == nil):
			return GateAuto, o
		case v.Decision == action.Deny || v.Decision == action.Invalid || o.Demoted != "":
		case propose == nil:
			propose = o
		}
	}
	switch {
	case personFirst:
		return GateHuman, &p.Options[0]
	case p.advised, propose == nil && !p.category.Infra && len(p.Hints) > 0:
		return GateNone, nil // an agent can do something about it, and is told so
	case propose != nil:
		return GatePropose, propose
	}
	for i := range p.Options {
		if o := &p.Options[i]; o.Executor == catalog.ByHuman {
			return GateHuman, o
		}
	}
	return GateHuman, nil
}

// decide judges what an option would run: its command or, where that needs others first, each of them and its own, of
// which the strictest verdict counts.
func decide(policy *recovery.Policy, o *Option) recovery.Verdict {
	texts := []string{o.Command}
	if own := o.OwnCommand(); o.Availability == Locked && own != "" {
		texts = texts[:0]
		for _, need := range o.UnlockPreview {
			if need.GoalKey != o.GoalKey { // to have that is what the option itself is for
				texts = append(texts, need.Command)
			}
		}
		texts = append(texts, own)
	}
	rank := []action.Decision{action.Auto, action.Human, action.Deny, action.Invalid}
	var worst recovery.Verdict
	for i, text := range texts {
		v := recovery.Decide(policy, recovery.Command{Text: text, WorkingDir: o.WorkingDir}, recovery.Facts{Confined: true, LooseOK: true})
		if i == 0 || slices.Index(rank, v.Decision) > slices.Index(rank, worst.Decision) {
			worst = v
		}
	}
	return worst
}

// retry is the plain retry of a transient or unknown failure, as often as the category says.
func (p *Plan) retry() *Option {
	f := &p.Failure
	if len(p.category.Retry) == 0 || f.Persistence != "transient" && f.Category != "unknown" {
		return nil
	}
	for i := range p.Options {
		o := &p.Options[i]
		if ok, _ := ByItself(*o, *f); ok && o.Plain() {
			return o
		}
	}
	return nil
}

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
	if slices.ContainsFunc(argv, func(a string) bool { return strings.Contains(a, ".superloop") }) {
		return "it touches superloop's own files"
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
	own := []string{owner.Value, "-TERM", "-15", "-KILL", "-9"}
	return !slices.ContainsFunc(argv[1:], func(a string) bool { return !slices.Contains(own, a) })
}
