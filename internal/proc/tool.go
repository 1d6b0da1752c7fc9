package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	defaultToolLimit = 64 << 20
	toolGrace        = 2 * time.Second
	toolStderr       = 16 << 10 // kept of the beginning and of the end of stderr, each
)

// ErrTooMuchOutput: a Tool wrote more than its limit.
var ErrTooMuchOutput = errors.New("too much output")

// Tool runs a short, trusted program, like git, without a Spawner. The program gets LC_ALL=C (so that messages can be
// read by a program), and GIT_TERMINAL_PROMPT=0 and GIT_OPTIONAL_LOCKS=0 (so that git neither asks nor disturbs a git
// that an agent runs at the same time).
type Tool struct {
	Dir   string   // "" is that of this process
	Env   []string // nil is that of this process
	Stdin []byte
	Limit int64 // of stdout, in bytes; 0 is 64 MiB
}

// ToolError says how a Tool failed. errors.Is finds what is inside Err: the end of the context, ErrTooMuchOutput,
// fs.ErrNotExist for a program that is not there.
type ToolError struct {
	Argv   []string
	Code   int    // exit code; -1 if it was not started, or a signal ended it
	Stderr string // the beginning and the end of it
	Err    error
}

func (e *ToolError) Error() string {
	text := fmt.Sprintf("%s: %v", strings.Join(e.Argv, " "), e.Err)
	if said := strings.TrimSpace(e.Stderr); said != "" {
		text += ": " + said
	}
	return text
}

func (e *ToolError) Unwrap() error { return e.Err }

// Run runs the program and returns its stdout, also next to an error. When ctx ends its process group gets SIGTERM, and
// SIGKILL 2 s later; Run does not wait longer than that. Every error is a *ToolError.
func (t Tool) Run(ctx context.Context, argv ...string) ([]byte, error) {
	if len(argv) == 0 {
		return nil, &ToolError{Code: -1, Err: errors.New("no command was given")}
	}
	env := t.Env
	if env == nil {
		env = os.Environ()
	}
	env = append(env[:len(env):len(env)], "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
	path, err := LookPath(argv[0], env)
	if err != nil {
		return nil, &ToolError{Argv: argv, Code: -1, Err: err}
	}
	limit := cmp.Or(t.Limit, defaultToolLimit)
	out := &limited{room: limit}
	said := NewHeadTail(toolStderr)
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Dir, cmd.Env = argv, t.Dir, env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(t.Stdin), out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = toolGrace
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left in the background
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // it ended well; something that it left held a pipe
		return out.buf.Bytes(), nil
	}
	failed := &ToolError{Argv: argv, Code: -1, Stderr: said.Capture().Text(), Err: err}
	if cmd.ProcessState != nil {
		failed.Code = cmd.ProcessState.ExitCode()
	}
	switch {
	case out.over:
		failed.Err = fmt.Errorf("%w: more than %d bytes", ErrTooMuchOutput, limit)
	case ctx.Err() != nil:
		failed.Err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return out.buf.Bytes(), failed
}

// Git runs git in dir in such a way that nothing which the repository's own configuration names is executed: no file
// system monitor, no hook, no lazy fetch over a transport. No object is replaced by another, and of git's variables only
// those of its configuration count. It may print 256 MiB. See Tool.Run for the error.
func Git(ctx context.Context, dir string, stdin []byte, args ...string) ([]byte, error) {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "GIT_") && !strings.HasPrefix(e, "GIT_CONFIG_") && !strings.HasPrefix(e, "GIT_CEILING")
	})
	env = append(env, "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none")
	argv := append([]string{"git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"}, args...)
	return Tool{Dir: dir, Env: env, Stdin: stdin, Limit: 256 << 20}.Run(ctx, argv...)
}

// limited refuses what is too much, which closes the pipe: the program gets SIGPIPE.
type limited struct {
	buf  bytes.Buffer
	room int64
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	n := int(min(int64(len(p)), l.room))
	l.room -= int64(n)
	l.buf.Write(p[:n])
	if l.over = n < len(p); l.over {
		return n, ErrTooMuchOutput
	}
	return n, nil
}
