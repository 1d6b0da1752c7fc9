package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
)

const (
	commandTimeout = 30 * time.Second
	commandOutput  = 64 << 10
	envField       = 4 << 10 // characters of one value in the environment
	argText        = 2000    // characters of {text}
)

// Command sends a message by running a program, such as mail, ntfy or a desktop notification, without a shell. In its
// arguments it replaces {title} and {text}. The program gets Body on standard input, and SUPERLOOP_NOTIFY_EVENT, _ID,
// _LOOP and so on in its environment. It runs in the directory /, so that it takes no files from a repository.
type Command struct {
	name  string
	argv  []string
	o     CommandOptions
	scrub *redact.Replacer
}

// CommandOptions configure a Command. The zero value means the defaults.
type CommandOptions struct {
	Timeout time.Duration // bounds one run; 0 is 30 s
	Env     []string      // the base environment; nil is the environment of this process
}

// NewCommand splits line into words as a shell does. Operators, substitutions and a relative path are errors.
func NewCommand(name, line string, o CommandOptions) (*Command, error) {
	fail := func(why string) (*Command, error) { return nil, fmt.Errorf("channel %q: the command %s", name, why) }
	parser := shellwords.NewParser()
	parser.ParseEnv, parser.ParseBacktick = false, false
	argv, err := parser.Parse(line)
	switch {
	case err != nil:
		return fail("cannot be split into words: is a quote or a parenthesis open?")
	case parser.Position >= 0:
		return fail(fmt.Sprintf("has a shell operator at character %d, and no shell runs it; quote it, or name a script", parser.Position+1))
	case len(argv) == 0 || argv[0] == "":
		return fail("is empty")
	case strings.ContainsRune(line, '\x00'):
		return fail("holds a NUL byte")
	case strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]):
		return fail("must be a name on the PATH or an absolute path, not a path that depends on the directory")
	}
	if o.Timeout <= 0 {
		o.Timeout = commandTimeout
	}
	return &Command{name: name, argv: argv, o: o, scrub: redact.Values(argv[1:])}, nil
}

// Name implements Notifier.
func (c *Command) Name() string { return c.name }

// Send implements Notifier. Exit code 0 is a success. Send returns a *PermanentError for a missing program, and for the
// exit codes 64, 77, 78, 126 and 127, by which programs report wrong use or configuration. Every other failure is a
// *TemporaryError.
func (c *Command) Send(ctx context.Context, m Message) error {
	stdin, err := Body(m)
	if err != nil {
		return &PermanentError{Reason: "writing the message as JSON failed"}
	}
	run, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	tool := proc.Tool{Dir: "/", Env: c.env(m), Stdin: stdin, Limit: commandOutput}
	if _, err = tool.Run(run, c.arguments(m)...); err == nil {
		return nil
	}
	return c.classify(ctx, err)
}

func (c *Command) arguments(m Message) []string {
	fill := strings.NewReplacer("{title}", Title(m), "{text}", text.Cut(Text(m), argText))
	argv := slices.Clone(c.argv)
	for i, arg := range argv[1:] {
		argv[i+1] = fill.Replace(arg)
	}
	return argv
}

// env returns the environment of the program. Every value is one line of visible characters, so that a value cannot
// deceive the program or its reader.
func (c *Command) env(m Message) []string {
	env := slices.Clone(c.o.Env)
	if env == nil {
		env = os.Environ()
	}
	next := m.Next
	if len(m.Ways) > 0 {
		next = m.Ways[0].Line
	}
	for _, field := range [][2]string{
		{"EVENT", string(m.Kind)}, {"ID", m.ID}, {"ESCALATION", m.Escalation}, {"LOOP", m.Loop}, {"REPO", m.Repo},
		{"ITERATION", strconv.Itoa(m.Iteration)}, {"TYPE", m.Type}, {"STATUS", m.Status}, {"REASON", m.Reason},
		{"COMMAND", m.Command}, {"CATEGORY", m.Category}, {"SEVERITY", m.Severity}, {"CONFIDENCE", m.Confidence}, {"DIGEST", m.Digest}, {"NEXT", next},
		{"BY", m.By}, {"TITLE", Title(m)},
	} {
		env = append(env, "SUPERLOOP_NOTIFY_"+field[0]+"="+OneLine(field[1], envField))
	}
	return env
}

// classify returns the error for a failed run. The command line may hold a token, so no reason holds the command line.
func (c *Command) classify(ctx context.Context, err error) error {
	program := filepath.Base(c.argv[0])
	missing, gone := errors.AsType[*proc.NotFoundError](err)
	failed, ran := errors.AsType[*proc.ToolError](err)
	switch {
	case gone && missing.Found != "":
		return &PermanentError{Reason: program + " is there, but it may not be executed"}
	case gone:
		return &PermanentError{Reason: "the program " + program + " was not found"}
	case !ran:
		return &TemporaryError{Reason: program + " could not be run"}
	case ctx.Err() != nil:
		return &TemporaryError{Reason: program + " was stopped"}
	case errors.Is(err, context.DeadlineExceeded):
		return &TemporaryError{Reason: fmt.Sprintf("%s did not end within %v", program, c.o.Timeout)}
	}
	reason := fmt.Sprintf("%s ended with exit code %d", program, failed.Code)
	if errors.Is(err, proc.ErrTooMuchOutput) {
		reason = program + " wrote too much"
	} else if failed.Code < 0 {
		reason = program + " could not be started, or was killed"
	}
	if said := OneLine(c.scrub.String(redact.Text(failed.Stderr)), 120); said != "" {
		reason += ": " + said
	}
	if slices.Contains([]int{64, 77, 78, 126, 127}, failed.Code) {
		return &PermanentError{Reason: reason}
	}
	return &TemporaryError{Reason: reason}
}
