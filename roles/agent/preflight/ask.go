package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent"
)

// maxSaid bounds what a program may print, in bytes.
const maxSaid = 1 << 20

// answer is what a program printed.
type answer struct {
	out string
	err error
}

// ask starts the program of a command line with these arguments only, in the
// line's environment and directory, with an empty standard input. merged adds
// standard error to the output: opencode prints its help there. The same
// question to the same program is asked once.
func (e *Examiner) ask(ctx context.Context, path string, l line, bound time.Duration, merged bool, args ...string) answer {
	key := strings.Join(append([]string{l.env("PATH"), l.Dir, path}, args...), "\x00")
	if a, ok := e.answers[key]; ok {
		return a
	}
	argv := append([]string{path}, args...)
	if merged {
		argv = append([]string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh"}, argv...)
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	out, err := proc.Tool{Dir: l.Dir, Env: l.Env, Limit: maxSaid}.Run(bounded, argv...)
	a := answer{string(out), err}
	if ctx.Err() == nil {
		if e.answers == nil {
			e.answers = map[string]answer{}
		}
		e.answers[key] = a
	}
	return a
}

// code is the exit code; -1 when the program did not run to its end.
func (a answer) code() int {
	var failed *proc.ToolError
	switch {
	case a.err == nil:
		return 0
	case errors.As(a.err, &failed):
		return failed.Code
	}
	return -1
}

// why says in a few words how it failed.
func (a answer) why(bound time.Duration) string {
	var failed *proc.ToolError
	said := ""
	if errors.As(a.err, &failed) {
		said = lastLine(failed.Stderr)
	}
	if said == "" {
		said = lastLine(a.out)
	}
	if said != "" {
		said = ": " + said
	}
	switch {
	case errors.Is(a.err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", bound)
	case errors.Is(a.err, proc.ErrTooMuchOutput):
		return fmt.Sprintf("more than %d bytes of output", maxSaid)
	case a.code() >= 0:
		return fmt.Sprintf("exit code %d%s", a.code(), said)
	case failed != nil:
		return failed.Err.Error() + said
	}
	return a.err.Error()
}

// patience bounds one question: opencode takes 13 s to start on a quiet
// machine, and several times that on a busy one.
func (e *Examiner) patience(a agent.Adapter) time.Duration {
	switch {
	case e.bound > 0:
		return e.bound
	case a.Name() == "opencode":
		return 60 * time.Second
	}
	return 20 * time.Second
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return plain(line)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return plain(text[strings.LastIndexByte(text, '\n')+1:])
}

// plain makes a foreign line fit to be shown.
func plain(line string) string { return text.Line(line, 200) }
