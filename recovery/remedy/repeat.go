package remedy

import (
	_ "embed" // for the commands
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// Repeatable returns "" if superloop may run a failed command again without an operator, as it is or altered by a
// remedy. Else it returns the reason. superloop runs a test command of the loop again, because the configuration has
// it run in every iteration. Any other command must be one that installs, builds, tests, lints or fetches, as far as
// its words say so; repeat.txt has the list. What a script or an unknown program does is not known, so superloop does
// not repeat it, unless the policy lists the command itself.
func Repeatable(f classify.Failure, listed bool) string {
	if f.Source == classify.SourceTests || listed {
		return ""
	}
	return repeatable(failedArgv(f.Argv, f.Command))
}

func repeatable(argv []string) string {
	a := recovery.Analyse(commandText([]Step{{Argv: argv}}))
	if len(a.Opaque) > 0 || len(a.Parts) == 0 {
		return "superloop cannot tell what the failed command runs, so it does not run it again"
	}
	for _, p := range a.Parts {
		if !listed(callOf(p.Words)) {
			return fmt.Sprintf("superloop cannot name %s as an install, a build, a test, a lint or a fetch, so it does not run it again", text.Display(shortened(p.Text)))
		}
	}
	return ""
}

func shortened(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// again returns why superloop must not run the failed command again without an operator, or "".
func (r *resolver) again() string {
	if r.f.Source == classify.SourceTests || r.s.Listed || len(r.argv) == 0 {
		return ""
	}
	return repeatable(r.argv)
}

// reruns reports whether an option of the catalog runs the failed command itself.
func reruns(t *catalog.Option) bool {
	return t.Strategy == catalog.Retry || t.Strategy == catalog.RetryWithModifier ||
		slices.ContainsFunc(t.Commands, func(argv []string) bool { return slices.Contains(argv, "{command}") })
}

//go:embed repeat.txt
var repeatText string

// repeatRules holds the lines of repeat.txt, by program.
type repeatRules struct {
	entries, scripts, options, targets map[string][]string
	names, never                       []string
}

var repeatTable = sync.OnceValue(func() repeatRules {
	r := repeatRules{entries: map[string][]string{}, scripts: map[string][]string{}, options: map[string][]string{}, targets: map[string][]string{}}
	for line := range strings.Lines(repeatText) {
		head, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		kind, program, _ := strings.Cut(head, " ")
		switch {
		case !ok || strings.HasPrefix(head, "#"):
		case kind == "names":
			r.names = strings.Fields(rest)
		case kind == "never":
			r.never = strings.Fields(rest)
		case kind == "options":
			r.options[program] = strings.Fields(rest)
		case kind == "targets":
			r.targets[program] = strings.Fields(rest)
		default:
			list := r.entries
			if kind == "scripts" {
				list = r.scripts
			}
			for entry := range strings.SplitSeq(rest, ",") {
				list[program] = append(list[program], program+" "+strings.TrimPrefix(strings.TrimSpace(entry), "*"))
			}
		}
	}
	return r
})

// listed reports whether a call stands in repeat.txt.
func listed(c call) bool {
	r := repeatTable()
	skip := r.options[c.program]
	if options, ok := r.targets[c.program]; ok {
		return r.allTargets(c.args, options)
	}
	for _, entry := range r.scripts[c.program] {
		if c.names(entry, skip) {
			rest := afterOptions(afterOptions(c.args, skip)[1:], skip)
			return len(rest) > 0 && r.tame(rest[0])
		}
	}
	return slices.ContainsFunc(r.entries[c.program], func(entry string) bool { return c.names(entry, skip) })
}

// allTargets reports whether every operand of make and similar programs is the name of a target that may run again.
// Without an operand they run the first target, which builds.
func (r repeatRules) allTargets(args, options []string) bool {
	for len(args) > 0 {
		rest := afterOptions(args, options)
		if len(rest) == 0 {
			break
		}
		word := rest[0]
		args = rest[1:]
		if !strings.HasPrefix(word, "-") && !isAssignment(word) && !r.tame(word) {
			return false
		}
	}
	return true
}

// tame reports whether the name of a script or target says that it installs, builds, tests, lints or fetches: its first
// or its last word says so, and none says something else. The words of ":app:assembleDebug" are app, assemble, debug.
func (r repeatRules) tame(name string) bool {
	words := strings.FieldsFunc(spaced(filepath.ToSlash(name)), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return slices.Contains(r.never, w) }) {
		return false
	}
	knows := func(w string) bool { return slices.Contains(r.names, w) }
	return knows(words[0]) || knows(words[len(words)-1]) || strings.HasPrefix(name, ":") && slices.ContainsFunc(words, knows)
}

// spaced puts a blank before each capital letter and makes it small.
func spaced(name string) string {
	var b strings.Builder
	for _, c := range name {
		if unicode.IsUpper(c) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
