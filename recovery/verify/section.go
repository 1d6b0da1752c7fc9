package verify

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/recovery/catalog"
)

// Passes says whether an end and an output are what a verify section expects: the exit code, and in the mode "output"
// also the pattern, which is matched against both streams without regard to case. why is "" if so.
func Passes(v catalog.Verify, stdout, stderr string, exit ExitInfo) (ok bool, why string) {
	switch {
	case exit.NotStarted:
		return false, "it could not be started"
	case exit.TimedOut:
		return false, "it did not end within its time limit"
	case exit.Signal != "":
		return false, "it was ended by the signal " + exit.Signal
	case exit.Code != v.ExitCode:
		return false, fmt.Sprintf("exit code %d instead of %d", exit.Code, v.ExitCode)
	case v.Mode != catalog.ModeOutput:
		return true, ""
	}
	re, err := regexp.Compile(`(?im)` + v.Pattern)
	if err != nil {
		return false, fmt.Sprintf("the pattern does not compile: %v", err)
	}
	if raw := joined(stdout, stderr); !re.MatchString(raw) && !re.MatchString(clean(raw)) {
		return false, fmt.Sprintf("the output does not match %s", v.Pattern)
	}
	return true, ""
}

var errNoCommand = errors.New("there is no command")

// split takes a verify command apart, as a shell splits words and without any other meaning of a shell.
func split(command string) ([]string, error) {
	p := shellwords.NewParser()
	argv, err := p.Parse(command)
	if err != nil {
		return nil, fmt.Errorf("splitting %q: %w", command, err)
	}
	if p.Position >= 0 {
		return nil, fmt.Errorf("splitting %q: a verify command runs without a shell, and has no %q", command, command[p.Position:])
	}
	if len(argv) == 0 {
		return nil, errNoCommand
	}
	return argv, nil
}

var question = pattern.Lazy(`^-{0,2}(?:v|V|vv|vers?|version\S*|help|h|\?)$`)

// asksOnly reports whether a command only asks a tool who it is: it has no argument, or one for the version or the
// help. Any other check, such as of a service, cannot be replaced by a look at the help. base is the command without
// the question.
func asksOnly(argv []string) (base []string, ok bool) {
	if len(argv) == 1 {
		return argv, true
	}
	at := slices.IndexFunc(argv[1:], question().MatchString)
	if at < 0 {
		return nil, false
	}
	return argv[:at+1], true
}

// harmful are programs whose -h is not help: it halts the machine.
func harmful(program string) bool {
	return slices.Contains([]string{"shutdown", "halt", "poweroff", "reboot", "init", "telinit"}, baseName(program))
}

// literal is the longest text, in lower case, that every match of an expression holds, or "" if there is none of some
// length. Looking for texts is much cheaper than an expression, and most lines hold none.
func literal(expr string) string {
	re, err := syntax.Parse("(?i)"+expr, syntax.Perl)
	if err != nil {
		return ""
	}
	best := longest(re.Simplify())
	if len(best) < 3 {
		return ""
	}
	return best
}

func longest(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		text := strings.ToLower(string(re.Rune))
		for i := range len(text) {
			if text[i] >= 0x80 {
				return "" // its lower case may be another in the line
			}
		}
		return text
	case syntax.OpCapture, syntax.OpPlus:
		return longest(re.Sub[0])
	case syntax.OpConcat:
		best := ""
		for _, s := range re.Sub {
			if text := longest(s); len(text) > len(best) {
				best = text
			}
		}
		return best
	}
	return ""
}

// literals are those of several expressions, nil if one of them has none: then nothing can be ruled out.
func literals(exprs []string) []string {
	var out []string
	for _, e := range exprs {
		l := literal(e)
		if l == "" {
			return nil
		}
		out = append(out, l)
	}
	return out
}

func containsAny(text string, list []string) bool {
	for _, l := range list {
		if strings.Contains(text, l) {
			return true
		}
	}
	return list == nil
}
