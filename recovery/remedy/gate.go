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

// The results of Gate.
const (
	GateAuto    = "auto"    // superloop runs the option without an operator
	GateRetry   = "retry"   // superloop runs the failed command again without an operator
	GatePropose = "propose" // superloop proposes the option's command to an operator
	GateHuman   = "human"   // superloop asks an operator and has no command to propose
	GateNone    = "none"    // superloop runs and asks nothing: the loop goes on, and an agent must make a change
)

// Gate returns what superloop does with a plan under a policy, and the option with which it does that. For GateHuman
// and GateNone the option may be nil. Gate depends on its arguments only. The checks of pinned inputs, sandbox, budget
// and cooldown come afterwards and can only make the result stricter. A nil policy lists no command.
//
// A plain retry needs no entry in the policy, because it runs a command that the loop runs anyway, or one of which a
// second run does what the first one did (see Repeatable). It comes before all
// options that change something, because it is the cheapest remedy. A general approach of the chain does not run as
// long as an option that a handler recommends is untried, because the handler knows the failure better.
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
		return GateNone, nil // an agent can repair the failure, and a hint in its prompt says how
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

// decide returns the policy's verdict on the command of an option. If the option needs dependencies first, decide
// judges the command of each dependency and the option's own, and returns the strictest verdict.
func decide(policy *recovery.Policy, o *Option) recovery.Verdict {
	texts := []string{o.Command}
	if own := o.OwnCommand(); o.Availability == Locked && own != "" {
		texts = texts[:0]
		for _, need := range o.UnlockPreview {
			if need.GoalKey != o.GoalKey { // else the option itself installs the dependency
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

// retry returns the option that plainly retries a transient or unknown failure, or nil. The category must allow
// retries.
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

// ByItself reports whether superloop may carry out an option without an operator, as far as the option itself is
// concerned. The string gives the reason if it may not. The policy must allow the command as well. The policy cannot
// override a refusal of ByItself: a policy allows a command text, but it does not confirm that the text is the remedy.
//
// For a proposal of the tester ByItself refuses only failures of the code, an option that is not ready, and a low
// confidence. All else is left to the policy.
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
	case o.again != "" && !tester:
		return false, o.again
	case o.Plain() && f.Weak:
		return false, "the code may be to blame as well"
	case o.Plain():
		return true, ""
	case Word(o.granted()) == low:
		return false, "its confidence is low"
	case tester:
		return true, ""
	case f.Weak:
		return false, "the code may be to blame as well"
	case slices.Contains([]string{"permission_denied", "disk_full", "resources", "auth"}, f.Category): // even if the policy lists the command
		return false, "an operator decides about rights, space, memory and secrets"
	case o.Demoted != "":
		return false, o.Demoted
	case o.ProposalOnly:
		return false, "an operator decides about this approach, always"
	case o.Foreign != "":
		return false, o.Foreign
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

// refuseStep returns why superloop must not run a step without an operator, or "".
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

// staleLock reports whether a word is the path of the lock file that a probe has found stale: no process holds it.
func staleLock(word string, f classify.Failure) bool {
	lock := f.Captures["lock"]
	held := f.Findings[classify.ProbeLockHolder]
	return lock != "" && held.Holds == classify.No && held.Value == "stale" && strings.HasSuffix(lock, ".lock") &&
		(word == lock || f.Dir != "" && filepath.Join(f.Dir, word) == filepath.Clean(lock))
}

// leavesProject reports whether a word, taken for a path, may lead out of dir, or to dir itself or its .git directory.
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

// cleansCache reports whether a command empties a cache that other projects use. It does not count npm cache verify and
// go clean -cache: the tool restores their files itself, and the suggested list of commands contains both.
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

// ownProcess reports whether a kill command ends only the process that a probe has confirmed as superloop's own.
func ownProcess(argv []string, f classify.Failure) bool {
	owner := f.Findings["port_owner"]
	if filepath.Base(argv[0]) != "kill" || owner.Holds != classify.Yes || !isNumber(owner.Value) || owner.Value == "0" || owner.Value == "1" {
		return false
	}
	own := []string{owner.Value, "-TERM", "-15", "-KILL", "-9"}
	return !slices.ContainsFunc(argv[1:], func(a string) bool { return !slices.Contains(own, a) })
}
