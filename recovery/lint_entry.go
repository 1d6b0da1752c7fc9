package recovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// look examines one entry of auto_approve.
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
	if len(a.Opaque) > 0 { // the first says it; the verb "policy check" shows all
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

// text looks at the bytes.
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

// pipesToShell finds downloads that are run.
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

// part looks at one simple command of an entry.
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

// scripts suggests forms that do not run what packages bring.
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
