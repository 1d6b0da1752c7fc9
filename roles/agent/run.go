package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent/class"
)

// Prompt modes: how the CLI is given its prompt.
const (
	PromptStdin = "stdin" // on standard input, to its end; "" is the same
	PromptFile  = "file"  // as a path, by {prompt_file}; standard input is empty
	PromptArg   = "arg"   // as one argument: {prompt}, else the last one
)

// CLI is how an agent command is started, as the configuration has it.
type CLI struct {
	Command        []string          // the program and its leading arguments; never empty
	Args, FastArgs []string          // Args follow; FastArgs replace them for a fast request, unless nil
	PromptMode     string            // one of the Prompt constants
	Env            map[string]string // is added to the agent's environment
	Adapter        string            // the name of the adapter to use; "" finds it by the program
	// PassEnv, unless nil, are the only variables of the supervisor's environment that the agent gets, besides those
	// that every program needs and the adapter's keys.
	PassEnv []string
}

// Request is one turn of one role. All paths are absolute.
type Request struct {
	CLI  CLI
	Fast bool

	PromptPath string // the rendered prompt, on disk before Run
	// LastMessageFile is where the agent may leave its last message. Run reads whatever is there afterwards and changes
	// no file, so the driver removes an old one before every attempt.
	LastMessageFile string
	// WorkDir is where the agent runs and what it is to change: the repository or the loop's worktree. It is {repo},
	// since commands use that as in `-C {repo}`, and an agent must not leave its worktree by it.
	WorkDir string
	Repo    string // the supervised repository; the agent knows it as SUPERLOOP_REPO
	LoopDir string

	Loop, RunID, Role  string
	Iteration, Attempt int      // from 1
	Model, Thinking    string   // "" is the CLI's own default; Thinking is none, minimal, low, standard, high or max
	Permissions        string   // one of the constants below; "" leaves it to the command and the CLI
	SessionID          string   // a UUID for a new session, for CLIs that take one; ignored when Resume is set
	Resume             *Session // to go on with instead of a new one
	MaxCostUSD         float64  // what the run may cost at most, for CLIs with a flag for it; 0 is no bound
}

// Session is one to go on with.
type Session struct {
	ID     string
	Totals *Totals // Learned.Totals of the last run in it; nil when that had none
}

// Permissions that a runner or a role can be given.
const (
	PermitRead      = "read-only" // look at files, change nothing, run nothing that changes
	PermitWorkspace = "workspace" // edit and run in the working directory, in the CLI's own sandbox where it has one
	PermitAll       = "full"      // no check and no sandbox of the CLI
)

// stdin reports whether the prompt is on standard input.
func (c CLI) stdin() bool { return c.PromptMode == "" || c.PromptMode == PromptStdin }

func (r Request) args() []string {
	if r.Fast && r.CLI.FastArgs != nil {
		return r.CLI.FastArgs
	}
	return r.CLI.Args
}

func (r Request) check() error {
	switch {
	case len(r.CLI.Command) == 0 || r.CLI.Command[0] == "":
		return errors.New("the runner has no command")
	case !r.CLI.stdin() && r.CLI.PromptMode != PromptFile && r.CLI.PromptMode != PromptArg:
		return fmt.Errorf("unknown prompt_mode %q: use stdin, file or arg", r.CLI.PromptMode)
	case r.Iteration < 1 || r.Attempt < 1:
		return fmt.Errorf("iteration %d and attempt %d must count from 1", r.Iteration, r.Attempt)
	case r.Thinking != "" && thinkingLevel(r.Thinking) < 0:
		return fmt.Errorf("unknown thinking %q: use one of %s", r.Thinking, strings.Join(thinkingLevels[:], ", "))
	case !slices.Contains([]string{"", PermitRead, PermitWorkspace, PermitAll}, r.Permissions):
		return fmt.Errorf("unknown permissions %q: use %s, %s or %s", r.Permissions, PermitRead, PermitWorkspace, PermitAll)
	}
	for _, p := range []struct{ name, path string }{
		{"prompt file", r.PromptPath}, {"last-message file", r.LastMessageFile}, {"working directory", r.WorkDir},
		{"repository", r.Repo}, {"loop directory", r.LoopDir},
	} {
		if !filepath.IsAbs(p.path) {
			return fmt.Errorf("the path %q of the %s is not absolute", p.path, p.name)
		}
	}
	for _, p := range []struct{ name, value string }{{"loop", r.Loop}, {"run id", r.RunID}, {"role", r.Role}} {
		if p.value == "" {
			return fmt.Errorf("the %s is not given", p.name)
		}
	}
	return nil
}

// thinkingLevels from least to most.
var thinkingLevels = [...]string{"none", "minimal", "low", "standard", "high", "max"}

func thinkingLevel(word string) int { return slices.Index(thinkingLevels[:], word) }

// NewSessionID is a random UUID (version 4), the form that the CLIs take for the id of a session.
func NewSessionID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

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
	WriteFile                  func(path, text string) error // puts Command.File on disk, if there is one
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
	if err == nil && command.File != "" {
		err = o.WriteFile(command.File, command.FileText)
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
