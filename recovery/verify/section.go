package verify

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
)

// Passes reports whether a command's exit and output are as a verify section expects. The exit code must be equal. In
// the mode "output" the pattern must also match the two streams, without regard to case. why is "" if the command
// passes.
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

// split splits a verify command into words as a shell does. It refuses every other construct of a shell.
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

// asksOnly reports whether a command only asks a tool for its version or help: the command has no argument, or has one
// for the version or the help. Only such a check can be replaced by a call of the help; the check of a service, for
// example, cannot. base is the command without the question.
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

// harmful are programs for which superloop tries neither --help nor -h, because their -h halts the machine.
var harmful = []string{"shutdown", "halt", "poweroff", "reboot", "init", "telinit"}

const (
	maxText = 64 << 10 // bytes of each stream that are examined, half of them from the end
	maxSaid = 160      // characters of a line that a message to an operator quotes
	maxLine = 2000     // bytes of a line that are examined; no proof is longer
)

var overstrike = pattern.Lazy(".\x08")

// clean removes terminal control sequences and overstrikes from a text.
func clean(s string) string {
	s = text.Uncoloured(s)
	if strings.Contains(s, "\x08") {
		s = overstrike().ReplaceAllString(s, "")
	}
	return strings.ToValidUTF8(s, "?")
}

func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return s[:maxText/2] + "\n" + s[len(s)-maxText/2:]
}

// joined returns the text that patterns are matched against: stdout, then stderr on a new line.
func joined(stdout, stderr string) string {
	stdout, stderr = clip(stdout), clip(stderr)
	if stdout != "" && stderr != "" && !strings.HasSuffix(stdout, "\n") {
		stdout += "\n"
	}
	return stdout + stderr
}

func splitLines(s string) []string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
	for i, l := range lines {
		lines[i] = l[:min(len(l), maxLine)]
	}
	return lines
}

// baseName returns the name of a program without its directory.
func baseName(program string) string {
	program = strings.Trim(program, `"'`+"`")
	if program == "" {
		return ""
	}
	return strings.TrimSuffix(path.Base(strings.ReplaceAll(program, `\`, "/")), ".exe")
}

// findWord returns the index of a word in text, without regard to case, or -1. No letter, digit or _ may be next to the
// word.
func findWord(text, word string) int { return indexWord(lowerASCII(text), lowerASCII(word), "") }

// indexWord is findWord with regard to case. None of the bytes in notBehind may be directly before the word either.
func indexWord(text, word, notBehind string) int {
	for from := 0; word != ""; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			break
		}
		i += from
		end := i + len(word)
		if (i == 0 || !wordByte(text[i-1]) && strings.IndexByte(notBehind, text[i-1]) < 0) && (end == len(text) || !wordByte(text[end])) {
			return i
		}
		from = i + 1
	}
	return -1
}

// lowerASCII converts ASCII letters to lower case. Every byte keeps its index, which strings.ToLower does not
// guarantee.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
