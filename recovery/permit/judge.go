package permit

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/places"
)

// Facts are what Judge needs to know of the machine.
type Facts struct {
	Root    string // the work tree of the agent, absolute and without symbolic links
	LoopDir string // the loop's directory, in which roles leave their reports; absolute, perhaps outside of Root
	Home    string // the user's home directory, for places that begin with "~/"
	// Real returns an absolute, clean path without the symbolic links in it, as far as the path exists. nil leaves paths as
	// they are. Between the verdict and the use of the path an agent can change a link: that is for the sandbox.
	Real func(path string) string
}

// Judge judges a request. It is pure but for Facts.Real, and total: it never panics. A failure inside of it is a question
// to an operator. Without a policy everything is a question.
func Judge(p *Policy, r Request, f Facts) (v Verdict) {
	defer func() {
		if e := recover(); e != nil {
			v = Verdict{Decision: action.Human, Rule: RuleFailed, Reason: "the judge failed (" + shown(fmt.Sprint(e)) + "), so an operator decides"}
		}
	}()
	if p == nil {
		return Verdict{Decision: action.Human, Rule: RuleFailed, Reason: "there is no policy, so an operator decides"}
	}
	j := judge{Policy: p, Request: r, facts: f}
	v = j.verdict()
	if v.Decision == action.Auto && !r.Exact {
		return Verdict{Decision: action.Human, Rule: RuleDisplay, Reason: "the agent shows only a title, and not what will run"}
	}
	return v
}

// judge holds the arguments of one call of Judge.
type judge struct {
	*Policy
	Request
	facts Facts
}

func (j *judge) verdict() Verdict {
	switch j.Kind {
	case Command:
		return j.command()
	case Write, Read:
		return j.files()
	case Fetch:
		return j.fetch()
	case MCP:
		if slices.Contains(j.Settings.Tools, j.Tool) {
			return say(action.Auto, RuleTools, "", "tools has %s", quoted(j.Tool))
		}
		return say(action.Human, RuleUnknown, "", "the MCP tool %s is not listed in tools", quoted(j.Tool))
	case Internal:
		return say(action.Auto, RuleInternal, "", "%s touches nothing outside of the agent", quoted(j.Tool))
	case Question:
		return say(action.Deny, RuleQuestion, "", "nobody answers questions of an agent here: choose the safest way yourself and go on")
	}
	return j.unknown("superloop does not know what the tool %s does", quoted(j.Tool))
}

func say(d action.Decision, rule, part, format string, args ...any) Verdict {
	return Verdict{Decision: d, Rule: rule, Part: part, Reason: fmt.Sprintf(format, args...)}
}

// unknown is the verdict on what nothing grants.
func (j *judge) unknown(format string, args ...any) Verdict {
	d := action.Human
	if j.Settings.OnUnknown == UnknownDeny {
		d = action.Deny
	}
	return say(d, RuleUnknown, "", format, args...)
}

func (j *judge) command() Verdict {
	c := recovery.Command{Text: j.Request.Command}
	if v := recovery.Decide(j.denied, c, recovery.Facts{}); v.Decision == action.Invalid {
		return say(action.Deny, v.Rule, v.Part, "%s", v.Reason)
	} else if v.Rule == recovery.RuleHuman {
		return say(action.Deny, RuleDeny, v.Part, "the pattern \"%s\" of deny fits it, or may fit it", shown(j.Settings.Deny[v.Pattern]))
	}
	v := recovery.Decide(j.listed, c, recovery.Facts{Confined: true})
	switch {
	case v.Decision == action.Auto:
		if dir := j.at("."); !j.in(dir) {
			return say(action.Human, RuleOutside, dir, "it is listed, but it would run in %s, outside of the work tree", quoted(dir))
		}
		return say(action.Auto, RuleAutoApprove, "", "%s", v.Reason)
	case v.Rule != recovery.RuleUnknown:
		return say(action.Human, v.Rule, v.Part, "%s", v.Reason)
	}
	if why := j.grants(v.Analysis); why != "" {
		return j.unknown("no list has it, and auto_approve_programs does not grant it: %s", why)
	}
	return say(action.Auto, RulePrograms, "", "each part of it begins with a program of auto_approve_programs")
}

// files judges the paths of a tool for files. The strictest path decides.
func (j *judge) files() Verdict {
	paths := j.Paths
	if len(paths) == 0 {
		if j.Kind == Write {
			return j.unknown("%s does not say which file it changes", quoted(j.Tool))
		}
		paths = []string{"."}
	}
	out := say(action.Auto, RulePaths, "", "it is inside of the work tree")
	if j.Kind == Read {
		out.Reason = "it only reads, and no place with secrets"
	}
	for _, name := range paths {
		path := j.at(name)
		switch {
		case strings.ContainsRune(name, 0):
			return say(action.Deny, RuleProtected, name, "the path has a NUL character")
		case j.Kind == Read && j.secret(path):
			return say(action.Deny, RuleSecret, path, "%s holds secrets", quoted(path))
		case j.Kind == Read && j.holdsSecrets(path):
			out = say(action.Human, RuleSecret, path, "%s has a place for secrets in it", quoted(path))
		case j.Kind == Read:
		case j.secret(path):
			return say(action.Deny, RuleProtected, path, "%s is a place for secrets", quoted(path))
		case j.protected(path):
			return say(action.Deny, RuleProtected, path, "%s is not for agents to change", quoted(path))
		case !j.in(path):
			out = say(action.Human, RuleOutside, path, "%s is not in the work tree", quoted(path))
		}
	}
	return out
}

func (j *judge) fetch() Verdict {
	host := strings.ToLower(strings.TrimSuffix(j.Host, "."))
	if host == "" {
		return j.unknown("%s does not say from which host it loads", quoted(j.Tool))
	}
	for _, h := range j.Settings.Hosts {
		h = strings.ToLower(h)
		if below, ok := strings.CutPrefix(h, "*"); host == h || ok && strings.HasPrefix(below, ".") && len(host) > len(below) && strings.HasSuffix(host, below) {
			return say(action.Auto, RuleHosts, "", "hosts has %s", quoted(h))
		}
	}
	return j.unknown("the host %s is not in hosts", quoted(host))
}

// at returns a path of the request as an absolute path without links, or "" if it is not certain where it lies.
func (j *judge) at(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok && j.facts.Home != "" {
		name = filepath.Join(j.facts.Home, rest)
	}
	if !filepath.IsAbs(name) {
		if !filepath.IsAbs(j.Dir) {
			return ""
		}
		name = j.Dir + "/" + name
	}
	clean := filepath.Clean(name)
	if j.facts.Real == nil || strings.ContainsRune(name, 0) {
		return clean
	}
	// Behind a link, ".." leads a shell elsewhere than a program that cleans its paths first.
	walked := filepath.Clean(j.facts.Real(name))
	if walked != filepath.Clean(j.facts.Real(clean)) {
		return ""
	}
	return walked
}

// in reports whether a path of at is in the work tree, or in the loop's directory.
func (j *judge) in(path string) bool {
	return path != "" && (below(path, j.facts.Root) || below(path, j.facts.LoopDir))
}

// below reports whether the path is dir or lies below it. Both are absolute and clean; "" is below nothing.
func below(path, dir string) bool {
	return path != "" && filepath.IsAbs(dir) && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/"))
}

// kept are the files of the loop's directory that are superloop's own.
var kept = []string{"events.jsonl", "events.jsonl.segments", "lock", "policies", "proposals"}

func (j *judge) protected(path string) bool {
	if path == "" || j.place(path, j.Settings.Paths.Deny) {
		return true
	}
	if rel, ok := under(path, j.facts.LoopDir); ok {
		first, _, _ := strings.Cut(rel, "/")
		return rel == "" || slices.ContainsFunc(kept, func(k string) bool { return strings.EqualFold(k, first) })
	}
	rel, ok := under(path, j.facts.Root)
	for name := range strings.SplitSeq(rel, "/") {
		if ok && slices.ContainsFunc(places.Trees(), func(h string) bool { return strings.EqualFold(h, name) }) {
			return true
		}
	}
	return false
}

// under returns the part of a path below dir.
func under(path, dir string) (rel string, ok bool) {
	if !below(path, dir) {
		return "", false
	}
	return strings.TrimPrefix(path[len(strings.TrimSuffix(dir, "/")):], "/"), true
}

func (j *judge) secret(path string) bool {
	return path == "" || j.place(path, places.Secrets()) || j.place(path, j.Settings.Paths.Secret)
}

// holdsSecrets reports whether a directory has one of the places with secrets below it, as far as the places say where
// they are.
func (j *judge) holdsSecrets(dir string) bool {
	return slices.ContainsFunc(slices.Concat(places.Secrets(), j.Settings.Paths.Secret), func(place string) bool {
		if rest, ok := strings.CutPrefix(place, "~/"); ok && j.facts.Home != "" {
			place = filepath.Join(j.facts.Home, rest)
		} else if !filepath.IsAbs(place) && strings.Contains(place, "/") {
			place = filepath.Join(j.facts.Root, place)
		}
		return filepath.IsAbs(place) && below(filepath.Clean(place), dir)
	})
}

// place reports whether a path is one of the places, or below one.
func (j *judge) place(path string, list []string) bool {
	return slices.ContainsFunc(list, func(place string) bool {
		home, ofHome := strings.CutPrefix(place, "~/")
		switch {
		case ofHome && j.facts.Home == "":
			return false
		case ofHome:
			place = filepath.Join(j.facts.Home, home)
		case !strings.Contains(place, "/"):
			for name := range strings.SplitSeq(path, "/") {
				if ok, err := filepath.Match(place, name); ok && err == nil && name != "" {
					return true
				}
			}
			return false
		case !filepath.IsAbs(place):
			place = filepath.Join(j.facts.Root, place)
		}
		return below(path, filepath.Clean(place))
	})
}

// shown prepares foreign text for a reason: shortened, and safe to print.
func shown(s string) string { return text.Display(text.Cut(s, 123)) }

func quoted(s string) string { return `"` + shown(s) + `"` }
