package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles"
)

// messageHalf is how much of the beginning, and of the end, of a last message
// is kept, in bytes. The end is what matters: there an agent says its promise,
// and a promise within the last 512 KiB is always found. The beginning is kept
// for the people who read it. What is left out between is marked.
const messageHalf = 512 << 10

// MaxMessage bounds Result.FinalMessage, in bytes, without the marker.
const MaxMessage = 2 * messageHalf

// Runner runs a process tree to its end; *proc.Spawner is one.
type Runner interface {
	Run(kill context.Context, spec proc.Spec) (proc.Result, error)
}

// Options are the bounds and the watchers of one run. The zero value has none.
type Options struct {
	// Environ is the environment that the agent inherits, as os.Environ gives
	// it.
	Environ []string
	// Timeout, Inactivity, Grace, Hurry, Log and LogLimit are as in proc.Spec.
	Timeout, Inactivity, Grace time.Duration
	Hurry                      <-chan struct{}
	// Log takes the agent's output; it is the only thing that Run writes to.
	Log      io.Writer
	LogLimit int64
	// Progress is called with what the agent said last (see Result.LastLine)
	// when that changed, at most ten times a second and once at the end, never
	// twice at a time. Run waits for it.
	Progress func(line string)
}

// Result is what one run left.
type Result struct {
	// Learned is what the CLI's output told. Its FinalMessage is the role's
	// last message by the contract, whatever it came from: at most MaxMessage
	// bytes and valid UTF-8, untrusted otherwise.
	Learned
	// From is one of roles.FromFile, FromStream, FromStdout.
	From string
	// MessageProblem says why a last-message file that is there was not read
	// (a link, a directory, a pipe); "" when all is well.
	MessageProblem string
	// LastLine is what the agent said last, on one line of at most 200
	// characters without control characters.
	LastLine string
	// Adapter is the name of the adapter that was used.
	Adapter string
	Proc    proc.Result
}

// Run runs the agent to its end and reads what it left.
//
// An error means that the run says nothing about the agent: the command could
// not be made, or the Runner failed. An agent that cannot be started, fails, is
// killed or runs out of time is no error; Result.Proc tells. The Result holds
// what was seen in either case.
func Run(kill context.Context, r Runner, req Request, o Options) (Result, error) {
	if len(req.CLI.Command) == 0 {
		return Result{}, fmt.Errorf("preparing the agent of the %s: %w", req.Role, req.check())
	}
	adapter := For(req.CLI)
	res := Result{Adapter: adapter.Name(), From: roles.FromStdout}
	command, err := adapter.Command(req, o.Environ)
	if err != nil {
		return res, fmt.Errorf("preparing the agent of the %s: %w", req.Role, err)
	}
	watch := &watcher{stream: adapter.Stream(req), progress: startProgress(o.Progress)}
	end, err := r.Run(kill, proc.Spec{
		Argv: command.Argv, Dir: command.Dir, Env: command.Env, Stdin: command.Stdin,
		Timeout: o.Timeout, Inactivity: o.Inactivity, Grace: o.Grace, Hurry: o.Hurry,
		Log: o.Log, LogLimit: o.LogLimit, HeadTail: messageHalf,
		Stdout: watch.stdout, Stderr: watch.stderr,
		Marker: MarkVariable + "=" + req.RunID,
	})
	res.Proc = end
	res.Learned, res.LastLine = watch.end(end)
	file, problem := lastMessageFile(req.LastMessageFile)
	res.MessageProblem = problem
	res.FinalMessage, res.From = roles.ChooseLastMessage(file, bounded(res.FinalMessage), end.Stdout.Text())
	res.FinalMessage = strings.ToValidUTF8(res.FinalMessage, "?")
	if err != nil {
		return res, fmt.Errorf("running the agent of the %s: %w", req.Role, err)
	}
	return res, nil
}

// lastMessageFile reads what the agent left there, and never anything that the
// path merely leads to: an agent could point it at a secret, which would then
// be quoted to the next one.
func lastMessageFile(path string) (text, problem string) {
	text, _, err := roles.ReadRegular(path, messageHalf, messageHalf)
	switch {
	case err == nil:
		return text, ""
	case errors.Is(err, fs.ErrNotExist):
		return "", ""
	}
	return "", fmt.Sprintf("the last-message file was not read: %v", err)
}

func bounded(text string) string {
	if len(text) <= MaxMessage {
		return text
	}
	return roles.JoinCut(text[:messageHalf], text[len(text)-messageHalf:], int64(len(text)-MaxMessage))
}

// watcher hands output to the stream and what it makes of it to the progress.
type watcher struct {
	progress *progress

	mu     sync.Mutex // stdout and stderr come from two goroutines
	stream Stream
}

func (w *watcher) stdout(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stream.Stdout(p)
	w.progress.say(w.stream.LastLine())
}

func (w *watcher) stderr(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stream.Stderr(p)
	w.progress.say(w.stream.LastLine())
}

func (w *watcher) end(end proc.Result) (Learned, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	learned := w.stream.Finish(end)
	last := w.stream.LastLine()
	w.progress.say(last)
	w.progress.end()
	return learned, last
}
