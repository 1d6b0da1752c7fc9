package recovery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// Severity says how serious a finding is.
type Severity string

// An error is a security hole or a contradiction. A warning is a loose setting, or one that the operator is unlikely to
// have meant. A note is worth knowing.
const (
	SevError   Severity = "error"
	SevWarning Severity = "warning"
	SevNote    Severity = "note"
)

// Finding is a fact about a policy that the operator should know.
type Finding struct {
	Severity Severity `json:"severity"`
	Pointer  string   `json:"pointer"` // the JSON pointer of the value in the config
	Code     string   `json:"code"`
	Message  string   `json:"message"` // one sentence; quoted text in it is safe to print
}

// Lint finds settings of a policy that are loose, contradictory or unlikely to be meant, in the order of the policy's
// keys. The findings include every overlap of an entry of auto_approve with a pattern of require_human.
func (p *Policy) Lint() []Finding {
	l := linter{Policy: p}
	l.section()
	for i, entry := range p.Settings.AutoApprove {
		if first := p.listed[entry]; first < i {
			l.add(SevNote, "duplicate", l.entry(i), "%s stands here twice; first as entry %d", quoted(entry), first+1)
			continue
		}
		l.look(i, entry)
	}
	for i := range p.patterns {
		l.pattern(i)
	}
	for _, r := range p.RunTests() {
		if !r.OK {
			l.add(SevError, "policy_test", r.Pointer, "the test fails: %s is %s, not %s: %s", quoted(r.Test.Command), r.Verdict.Decision, r.Test.Expect, r.Verdict.Reason)
		}
	}
	return l.found
}

type linter struct {
	*Policy
	found []Finding
}

func (l *linter) add(s Severity, code, pointer, format string, args ...any) {
	l.found = append(l.found, Finding{Severity: s, Code: code, Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func (l *linter) entry(i int) string { return l.Pointer("auto_approve", i) }

func quoted(s string) string { return "\"" + text.Display(clip(s)) + "\"" }

// section checks the settings that are not lists of commands.
func (l *linter) section() {
	s := l.Settings
	if s.OnUnknown == UnknownAllow {
		l.add(SevWarning, "loose", l.Pointer("on_unknown"), "commands that nobody listed run without an operator; require_human is a tripwire, there are more ways to run a program than it can name")
		if len(s.RequireHuman) == 0 {
			l.add(SevError, "loose", l.Pointer("require_human"), "with on_unknown \"allow\" and no pattern every command runs, whatever it is")
		}
	}
	if s.Guard == GuardOff && len(s.AutoApprove) > 0 {
		l.add(SevWarning, "guard_off", l.Pointer("guard"), "a listed command runs whatever an agent has changed in what it reads (package.json scripts, .npmrc, Makefile)")
	}
	if s.MaxAuto == 0 && len(s.AutoApprove) > 0 {
		l.add(SevNote, "budget", l.Pointer("max_auto_recoveries_per_run"), "it is 0, so no listed command ever runs by itself")
	}
	for i, name := range s.EnvPassthrough {
		if loaded(name) {
			l.add(SevWarning, "env", l.Pointer("env_passthrough", i), "%s tells other programs what to run", name)
		}
	}
	for _, command := range slices.Sorted(maps.Keys(s.Entries)) {
		// A loop with its own list may leave out commands that the config lists.
		if _, ok := l.listed[command]; !ok && l.origin["entries"] == l.origin["auto_approve"] {
			l.add(SevWarning, "no_such_entry", l.Pointer("entries", command), "%s is not in auto_approve, so nothing is set by this", quoted(command))
		}
	}
}

// overlaps reports every pattern that fits an entry, and says which of the two wins.
func (l *linter) overlaps(i int, entry string, a *Analysis) {
	d := decision{Policy: l.Policy, Command: Command{Text: entry}, a: a}
	for n := range l.patterns {
		pat := &l.patterns[n]
		part, fit := d.hit(pat)
		where := ""
		if part != entry {
			where = " in the part " + quoted(part)
		}
		switch {
		case fit == no:
		case pat.text == entry:
			l.add(SevError, "conflict", l.entry(i), "%s stands in require_human too (pattern %d), so it never runs by itself", quoted(entry), n+1)
		case pat.literal && fit == sure:
			l.add(SevError, "conflict", l.entry(i), "%s is named by the pattern %s of require_human%s, so it never runs by itself; remove one of them", quoted(entry), quoted(pat.text), where)
		case l.Settings.StrictRequireHuman:
			l.add(SevWarning, "overlap", l.entry(i), "%s fits the pattern %s of require_human%s, which wins (strict_require_human)", quoted(entry), quoted(pat.text), where)
		case pat.all:
			// the pattern has only stars, the usual case and the default: every other command needs an operator
		case pat.literal:
			l.add(SevNote, "overlap", l.entry(i), "%s may fit the pattern %s of require_human%s; the entry wins", quoted(entry), quoted(pat.text), where)
		default:
			l.add(SevNote, "overlap", l.entry(i), "%s fits the pattern %s of require_human%s; the entry wins, since it is exact", quoted(entry), quoted(pat.text), where)
		}
	}
}

// pattern checks one entry of require_human.
func (l *linter) pattern(i int) {
	pat := &l.patterns[i]
	at := l.Pointer("require_human", i)
	if len(hidden(pat.text)) > 0 {
		l.add(SevError, "hidden", at, "%s holds characters that cannot be seen", quoted(pat.text))
	}
	switch {
	case looksLikeRegexp(pat.text):
		l.add(SevWarning, "regexp", at, "%s looks like a regular expression, but only * is special: it is any text, everything else is itself", quoted(pat.text))
	case strings.ContainsAny(pat.text, "'\"\\"):
		l.add(SevWarning, "quotes", at, "%s is compared with words after their quotes were removed, so quotes in it fit only the text as it is written", quoted(pat.text))
	case pat.literal && strings.ContainsAny(pat.glob, ";&|"):
		l.add(SevWarning, "compound", at, "%s is more than one command; each part of a command is compared by itself, so this fits only a text that begins with it", quoted(pat.text))
	}
}

func looksLikeRegexp(s string) bool {
	marks := []string{".*", ".+", "\\b", "\\s", "\\w", "\\d", "[^", "(?", ")?"}
	return slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(s, mark) }) || strings.HasPrefix(s, "^") || strings.HasSuffix(s, "$") && !strings.HasSuffix(s, " $")
}

// Worst returns the highest severity among findings, or "" without findings.
func Worst(found []Finding) Severity {
	rank := map[Severity]int{SevNote: 1, SevWarning: 2, SevError: 3}
	if len(found) == 0 {
		return ""
	}
	return slices.MaxFunc(found, func(a, b Finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) }).Severity
}

// look checks one entry of auto_approve.
func (l *linter) look(i int, entry string) {
	a := Analyse(entry)
	at := l.entry(i)
	l.text(at, entry, a)
	l.overlaps(i, entry, a)
	if a.Privileged != "" && !l.Settings.AllowPrivileged {
		l.add(SevError, "privileged", at, "%s runs with other rights (%s); it never runs by itself unless allow_privileged is true", quoted(entry), text.Display(clip(a.Privileged)))
	}
	if a.State != "" {
		l.add(SevError, "wrapper_state", at, "%s touches superloop's own files (%s)", quoted(entry), text.Display(clip(a.State)))
	}
	if len(a.Opaque) > 0 { // one finding shows the first remark; superloop policy check shows all of them
		why := a.Opaque[0].Why
		if strings.Contains(why, "cannot be read as a bash command") {
			l.add(SevError, "unreadable", at, "%s: %s", quoted(entry), why)
		} else {
			l.add(SevWarning, "opaque", at, "%s: %s", quoted(entry), why)
		}
	}
	pipesToShell(l, at, entry, a)
	for n := range a.Parts {
		l.part(at, entry, &a.Parts[n])
	}
}

// text checks the bytes of an entry.
func (l *linter) text(at, entry string, a *Analysis) {
	if len(a.Hidden) > 0 {
		l.add(SevError, "hidden", at, "%s holds %s at byte %d, which cannot be seen", quoted(entry), a.Hidden[0].Name, a.Hidden[0].Offset)
	}
	if strings.TrimSpace(entry) != entry {
		l.add(SevWarning, "blanks", at, "%s begins or ends with a blank or a newline; a proposal must have it too, byte for byte", quoted(entry))
	}
	if len(entry) > MaxCommand {
		l.add(SevNote, "long", at, "%s has %d bytes", quoted(entry), len(entry))
	}
	if looksLikeRegexp(entry) {
		l.add(SevWarning, "regexp", at, "%s looks like a regular expression; entries are compared byte for byte", quoted(entry))
	}
}

// pipesToShell reports an entry that runs what it downloads.
func pipesToShell(l *linter, at, entry string, a *Analysis) {
	fetches, runs := false, false
	for _, p := range a.Parts {
		if len(p.words) == 0 {
			continue
		}
		switch programName(p.words[0].text) {
		case "curl", "wget", "fetch", "http", "aria2c":
			fetches = true
		case "sh", "bash", "dash", "zsh", "ksh", "python", "python3", "node", "perl", "ruby", "eval", "source", ".":
			runs = true
		}
	}
	if fetches && runs {
		l.add(SevError, "remote_code", at, "%s runs what it downloads: whoever has that server decides what runs here", quoted(entry))
	}
}

// part checks one simple command of an entry.
func (l *linter) part(at, entry string, p *Part) {
	if len(p.words) == 0 || !p.words[0].known {
		return
	}
	name := programName(p.words[0].text)
	say := func(s Severity, code, format string, args ...any) {
		l.add(s, code, at, "%s: %s", quoted(entry), fmt.Sprintf(format, args...))
	}
	verb := ""
	for i, w := range p.words {
		text := w.before()
		switch {
		case i == 0 && strings.HasPrefix(text, "./"), i == 0 && !strings.HasPrefix(text, "/") && strings.Contains(text, "/"):
			say(SevNote, "script", "%s is a program of the repository; it is granted as long as it is what it was when the policy was trusted", quoted(text))
		case strings.HasPrefix(text, "http:"), strings.HasPrefix(text, "git:"), strings.HasPrefix(text, "git+"), strings.HasPrefix(text, "file:"), strings.HasPrefix(text, "ftp:"):
			say(SevWarning, "source", "%s is a source that can change without a trace", quoted(w.show()))
		case strings.HasSuffix(text, "@latest"), strings.HasSuffix(text, "@next"):
			say(SevWarning, "unpinned", "%s is another version tomorrow; pin it", quoted(text))
		case strings.HasPrefix(text, "/") && !slices.Contains([]string{"/dev/null", "/dev/stdout", "/dev/stderr"}, text) && i > 0, strings.HasPrefix(text, "~"):
			say(SevWarning, "absolute", "%s is outside of the repository, or at another place on another machine", quoted(w.show()))
		case text == ".." || strings.HasPrefix(text, "../") || strings.Contains(text, "/../"):
			say(SevWarning, "parent", "%s leads upwards", quoted(w.show()))
		case i > 0 && (text == "-g" || text == "--global"), text == "--prefix", strings.HasPrefix(text, "--prefix="):
			say(SevWarning, "elsewhere", "%s works outside of the repository", quoted(text))
		case i > 0 && !w.known && !w.split && strings.Trim(w.text, string(unknown)+"./") == "":
			say(SevWarning, "glob", "bash replaces %s by the names of files that are there then; an agent makes files", quoted(w.show()))
		case i > 0 && !w.known && w.split:
			say(SevWarning, "variable", "%s is what it is when it runs; recovery commands get a small environment", quoted(p.Text))
		}
		if i > 0 && verb == "" && w.known && !isOption(text) {
			verb = text
		}
	}
	l.scripts(say, name, verb, p)
}

// scripts suggests options with which a package manager does not run the scripts of packages.
func (l *linter) scripts(say func(Severity, string, string, ...any), name, verb string, p *Part) {
	if slices.ContainsFunc(p.words, func(w word) bool { return w.text == "--ignore-scripts" }) {
		return
	}
	installs := verb == "install" || verb == "i" || verb == "ci" || verb == "add" || verb == "update" || verb == "rebuild"
	switch {
	case name == "npm" && (verb == "install" || verb == "i"):
		say(SevNote, "scripts", "it runs the install scripts of every package; npm ci --ignore-scripts does not, and keeps to the lockfile")
	case (name == "npm" || name == "pnpm" || name == "bun") && installs, name == "yarn" && (installs || verb == ""):
		say(SevNote, "scripts", "it runs the project's own install scripts, and those of trusted packages; with --ignore-scripts it does not")
	case (name == "pip" || name == "pip3") && verb == "install":
		say(SevNote, "scripts", "it runs the setup.py of packages that have no wheel; --only-binary :all: does not")
	}
}
