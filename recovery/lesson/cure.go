package lesson

import (
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
)

// step is one command of a cure.
type step struct {
	sudo bool
	argv []string
}

// argvs splits the text of a cure into commands that each run if the one before succeeded. The error is a *Refusal if
// the text is more than that.
func argvs(command string, r *redact.Replacer) ([]step, error) {
	command = strings.TrimSpace(command)
	if shown := redact.Text(r.String(command)); named().MatchString(command) || strings.Contains(shown, redact.Mark) || r.String(command) != command {
		return nil, refuse(IsSecret, "the cure holds a secret: let a script of the repository read it from where it is kept, and make that script the cure")
	}
	steps, err := recovery.Steps(command)
	if err != nil {
		return nil, refuse(IsText, "the cure is no command: %v", err)
	}
	var out []step
	var seen strings.Builder
	for i, s := range steps {
		if i > 0 {
			seen.WriteString("&&")
		}
		seen.WriteString(s.Text)
		words := strings.Join(s.Words, " ")
		if strings.Count(words, "...") != strings.Count(s.Text, "...") || assigned().MatchString(s.Text) || strings.ContainsAny(words, "{}\n\r\x00") {
			out = nil
			break
		}
		next := step{argv: s.Words}
		if s.Words[0] == "sudo" && len(s.Words) > 1 && !strings.HasPrefix(s.Words[1], "-") {
			next = step{sudo: true, argv: s.Words[1:]}
		}
		out = append(out, next)
	}
	if len(out) == 0 || squeeze(seen.String()) != squeeze(command) {
		return nil, refuse(IsText, "the cure %s is more than commands with && between them (a glob, a variable, a pipe, a redirection), and a rule's commands run "+
			"without a shell: put it into a script of the repository, and make that script the cure", text.Display(text.Cut(command, 120)))
	}
	return out, nil
}

var assigned = pattern.Lazy(`^\w+=`)

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// mentions returns the place of a text among the arguments of commands, as a whole or between marks such as / and =.
func mentions(s string) *regexp.Regexp {
	return regexp.MustCompile(`(^|[/=:@,+.])(` + regexp.QuoteMeta(s) + `)($|[/=:@,+.])`)
}

// quotes reports whether an argument of a command quotes a text. Programs and options do not count.
func quotes(cure []step, s string) bool {
	if len(s) < 2 {
		return false
	}
	re := mentions(s)
	return slices.ContainsFunc(cure, func(c step) bool { return slices.ContainsFunc(c.argv[1:], re.MatchString) })
}

// fill puts a placeholder where the commands quote a text.
func fill(cure []step, s, name string) {
	re := mentions(s)
	for _, c := range cure {
		for i := range c.argv[1:] {
			c.argv[i+1] = re.ReplaceAllString(c.argv[i+1], "${1}{"+name+"}${3}")
		}
	}
}
