package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	defaultToolLimit = 64 << 20
	toolGrace        = 2 * time.Second
	toolStderr       = 16 << 10 // bytes kept of the beginning, and again of the end, of stderr
)

// ErrTooMuchOutput says that a Tool wrote more than its limit.
var ErrTooMuchOutput = errors.New("too much output")

// Tool runs a short program that an operator has named, without a Spawner; superloop's own programs run through System
// and package gitcmd. The program gets LC_ALL=C, so that other programs can parse its messages. It also gets
// GIT_TERMINAL_PROMPT=0 and GIT_OPTIONAL_LOCKS=0, so that git asks no questions and does not disturb a git that an agent
// runs at the same time.
type Tool struct {
	Dir   string   // the working directory; "" is that of this process
	Env   []string // the environment; nil is that of this process
	Stdin []byte
	Limit int64 // the most bytes of stdout; 0 is 64 MiB
}

// ToolError says how a Tool failed. errors.Is finds the cause: the error of the context, ErrTooMuchOutput, or
// fs.ErrNotExist for a missing program.
type ToolError struct {
	Argv   []string
	Code   int    // the exit code; -1 if the program was not started, or a signal ended it
	Stderr string // the beginning and the end of stderr
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

// Run runs the program and returns its stdout, also with an error. When ctx ends, the process group gets SIGTERM, and 2
// s later SIGKILL; Run does not wait longer. Every error is a *ToolError.
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
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // background processes that the program left
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // the program succeeded, but a process that it left holds a pipe open
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

// limited collects output up to room bytes. A write beyond that fails, which closes the pipe and so ends the program
// with SIGPIPE.
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
