package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent/class"
)

// messageHalf is how much of the beginning, and of the end, of a last message is kept, in bytes. At the end an agent
// says its promise. What is left out between is marked.
const messageHalf = 512 << 10

// MaxMessage bounds Result.FinalMessage, in bytes, without the marker.
const MaxMessage = 2 * messageHalf

// Runner runs a process tree to its end; *proc.Spawner is one.
type Runner interface {
	Run(kill context.Context, spec proc.Spec) (proc.Result, error)
}

// Options are the bounds and the watchers of one run. The zero value has none.
type Options struct {
	Environ []string // what the agent inherits, as os.Environ gives it
	// Timeout, Inactivity, Grace, Hurry, Log and LogLimit are as in proc.Spec.
	Timeout, Inactivity, Grace time.Duration
	Hurry                      <-chan struct{}
	Log                        io.Writer // takes the agent's output; it is the only thing that Run writes to
	LogLimit                   int64
	WriteFile                  func(path, text string) error // puts a file of Command.Files on disk, if there are some
	Redact                     *redact.Replacer              // of what is logged, shown and returned; nil takes out nothing
	// Progress is called with what the agent said last (see Result.LastLine) when that changed, at most ten times a
	// second and once at the end, never twice at a time. Run waits for it.
	Progress func(line string)
}

// Result is what one run left.
type Result struct {
	// Learned is what the CLI's output told. Its FinalMessage is the role's last message by the contract, whatever it
	// came from: at most MaxMessage bytes and valid UTF-8, untrusted otherwise.
	Learned
	From           string // one of roles.FromFile, FromStream, FromStdout
	MessageProblem string // why a last-message file that is there was not read (a link, a directory, a pipe)
	LastLine       string // what the agent said last: at most 200 characters, none of them a control character
	// Cut says why Run itself ended the process before its time: CutFinished or CutHopeless; "" when it did not.
	// Proc.Ended is proc.Killed then, and the stream has the say.
	Cut  string
	Proc proc.Result
}

// Why Run ended a process.
const (
	CutFinished = "finished" // its stream had ended and it did not leave within leaveTime
	CutHopeless = "hopeless" // it went on trying what cannot succeed now
)

// leaveTime is what a CLI gets to leave after its last event: some save their session then, some never leave.
const leaveTime = 20 * time.Second

// OK reports whether the CLI says that its turn is over, where it has a way to say so, and ended well.
func (r Result) OK() bool {
	if r.Structured && (!r.Done || r.Class != class.None) {
		return false
	}
	if r.Cut == CutFinished {
		return r.Done
	}
	return r.Proc.Ended == proc.Exited && r.Proc.Signal == "" && r.Proc.Code == 0
}

// Run runs the agent to its end and reads what it left. An error means that the run says nothing about the agent: the
// command could not be made, or the Runner failed. An agent that cannot be started, fails, is killed or runs out of
// time is no error; Result.Proc tells. The Result holds what was seen in either case.
func Run(kill context.Context, r Runner, req Request, o Options) (Result, error) {
	adapter := For(req.CLI)
	res := Result{From: roles.FromStdout}
	command, err := adapter.Command(req, o.Environ)
	for _, path := range slices.Sorted(maps.Keys(command.Files)) {
		switch {
		case err != nil:
		case o.WriteFile == nil:
			err = errors.New(path + " has to be written first, and nobody does")
		default:
			err = o.WriteFile(path, command.Files[path])
		}
	}
	if err != nil {
		return res, fmt.Errorf("preparing the agent of the %s: %w", req.Role, err)
	}
	inner, cut := context.WithCancelCause(kill)
	watch := &watcher{stream: adapter.Stream(req), progress: startProgress(o.Progress), redact: o.Redact, cut: cut}
	log, closeLog := o.Log, func() error { return nil }
	if log != nil && o.Redact != nil {
		w := o.Redact.Writer(log)
		log, closeLog = w, w.Close
	}
	end, err := r.Run(inner, proc.Spec{
		Argv: command.Argv, Dir: command.Dir, Env: command.Env, Stdin: command.Stdin,
		Timeout: o.Timeout, Inactivity: o.Inactivity, Grace: o.Grace, Hurry: o.Hurry,
		Log: log, LogLimit: o.LogLimit, HeadTail: messageHalf,
		Stdout: watch.stdout, Stderr: watch.stderr,
		Marker: MarkVariable + "=" + req.RunID,
	})
	cut(nil)
	// Otherwise the process ended by itself, or somebody else ended it.
	if why, ok := errors.AsType[cutError](context.Cause(inner)); ok && end.Ended == proc.Killed && kill.Err() == nil {
		res.Cut = string(why)
	}
	if lerr := closeLog(); lerr != nil && end.LogErr == nil {
		end.LogErr = lerr
	}
	res.Proc = end
	res.Learned, res.LastLine = watch.end(end)
	if r, ok := watch.stream.(Recoverer); ok {
		r.Recover(command.Env, command.Dir, &res.Learned)
	}
	res.ErrorText = o.Redact.String(res.ErrorText)
	// Never through a link: an agent could point it at a secret, which would then be quoted to the next one.
	file, _, ferr := roles.ReadRegular(req.LastMessageFile, messageHalf, messageHalf)
	if ferr != nil && !errors.Is(ferr, fs.ErrNotExist) {
		res.MessageProblem = fmt.Sprintf("the last-message file was not read: %v", ferr)
	}
	said := end.Stdout.Text()
	if res.Structured {
		said = "" // events are not what the agent said
	}
	res.FinalMessage, res.From = roles.ChooseLastMessage(file, roles.Cut(res.FinalMessage, messageHalf, messageHalf), said)
	res.FinalMessage = o.Redact.String(strings.ToValidUTF8(res.FinalMessage, "?"))
	if err != nil {
		return res, fmt.Errorf("running the agent of the %s: %w", req.Role, err)
	}
	return res, nil
}

// cutError is why Run itself ends a process: CutFinished or CutHopeless.
type cutError string

func (e cutError) Error() string { return string(e) }

// watcher reads what a process prints. It ends the process at once when its stream is hopeless, and after leaveTime
// when the stream stays finished.
type watcher struct {
	progress *progress
	redact   *redact.Replacer
	cut      context.CancelCauseFunc

	mu     sync.Mutex // stdout and stderr come from two goroutines
	stream Stream
	last   Settled
	leave  *time.Timer // runs while the stream is finished; nil before it was
}

func (w *watcher) stdout(p []byte) { w.fed(func() { w.stream.Stdout(p) }) }
func (w *watcher) stderr(p []byte) { w.fed(func() { w.stream.Stderr(p) }) }

func (w *watcher) fed(feed func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	feed()
	w.progress.say(w.redact.String(w.stream.LastLine()))
	s := w.stream.Settled()
	if s == w.last {
		return
	}
	w.last = s
	w.stay()
	switch s {
	case Hopeless:
		w.cut(cutError(CutHopeless))
	case Finished:
		w.leave = time.AfterFunc(leaveTime, func() { w.cut(cutError(CutFinished)) })
	}
}

// stay takes back that the process is ended: it may work again, when a background task has come to its end, say.
func (w *watcher) stay() {
	if w.leave != nil {
		w.leave.Stop()
	}
}

func (w *watcher) end(end proc.Result) (Learned, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stay()
	learned := w.stream.Finish(end)
	last := w.redact.String(w.stream.LastLine())
	w.progress.say(last)
	w.progress.end()
	return learned, last
}
