package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	cmd.Args, cmd.Dir, cmd.Env, cmd.Stdin = argv, t.Dir, env, bytes.NewReader(t.Stdin)
	stdout, err := pipeTo(&cmd.Stdout, out)
	if err != nil {
		return nil, &ToolError{Argv: argv, Code: -1, Err: err}
	}
	stderr, err := pipeTo(&cmd.Stderr, said)
	if err != nil {
		_, _ = stdout.read.Close(), stdout.write.Close()
		return nil, &ToolError{Argv: argv, Code: -1, Err: err}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = toolGrace
	err = cmd.Start()
	stdout.begun()
	stderr.begun()
	if err == nil {
		err = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // background processes that the program left
	}
	stdout.end(toolGrace)
	stderr.end(toolGrace)
	if !out.over && (err == nil || errors.Is(err, exec.ErrWaitDelay)) { // the program succeeded, but a process that it left holds its stdin
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

// outlet reads what a program writes to a pipe. What the program has written before it ended is read whole, also if another
// process holds the pipe open, or if this process gets no processor time for longer than anybody waits: exec.Cmd would
// close the pipe then, and the program would seem to have said less than it did.
type outlet struct {
	read, write *os.File
	to          io.Writer
	done        chan struct{} // closed when nothing copies any more
}

// pipeTo has what is written to *file arrive in to.
func pipeTo(file *io.Writer, to io.Writer) (*outlet, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*file = w
	return &outlet{r, w, to, make(chan struct{})}, nil
}

// begun begins to read, when the program has its end of the pipe.
func (o *outlet) begun() {
	_ = o.write.Close()
	go func() {
		defer close(o.done)
		_, err := io.Copy(o.to, o.read)
		if errors.Is(err, ErrTooMuchOutput) {
			_ = o.read.Close() // the program gets SIGPIPE
		}
	}()
}

// end is called when the program has ended. It waits until others close the pipe, for grace at most.
func (o *outlet) end(grace time.Duration) {
	defer o.read.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-o.done:
		return
	case <-timer.C:
	}
	_ = o.read.SetReadDeadline(time.Now())
	<-o.done
	_ = o.read.SetReadDeadline(time.Time{})
	conn, err := o.read.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(fd uintptr) bool { // the pipe holds what nobody has copied
		for buf := make([]byte, 32<<10); ; {
			n, err := syscall.Read(int(fd), buf)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 {
				return true
			}
			if _, err := o.to.Write(buf[:n]); err != nil {
				return true
			}
		}
	})
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
