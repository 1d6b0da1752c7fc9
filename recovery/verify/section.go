package verify

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/mattn/go-shellwords"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/recovery/catalog"
)

// Passes says whether an end and an output are what a verify section expects: the exit code, and in the mode "output"
// also the pattern, which is matched against both streams without regard to case. why is "" if so.
func Passes(v catalog.Verify, stdout, stderr string, exit ExitInfo) (ok bool, why string) {
	switch why := exit.cut(); {
	case why != "":
		return false, why
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
var harmful = []string{"shutdown", "halt", "poweroff", "reboot", "init", "telinit"}
