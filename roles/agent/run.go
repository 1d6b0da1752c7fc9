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

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent/class"
)

// The prompt modes: how the CLI gets its prompt.
const (
	PromptStdin = "stdin" // on standard input; "" means the same
	PromptFile  = "file"  // as a path, which replaces {prompt_file}; standard input is empty
	PromptArg   = "arg"   // as one argument, which replaces {prompt} or else comes last
)

// CLI describes how an agent command is started, as in the configuration.
type CLI struct {
	Command        []string          // the program and its leading arguments; never empty
	Args, FastArgs []string          // Args follow the command; FastArgs, unless nil, replace them for a fast request
	PromptMode     string            // one of the Prompt constants
	Env            map[string]string // added to the agent's environment
	Adapter        string            // the name of the adapter; "" finds the adapter by the program
	// PassEnv, unless nil, lists the only variables of the supervisor's environment that the agent gets, besides those
	// that every program needs and the keys of the adapter.
	PassEnv []string
}

// Request describes one turn of one role. All paths are absolute.
type Request struct {
	CLI  CLI
	Fast bool

	PromptPath string // the rendered prompt, which is on disk before Run
	// LastMessageFile is the file in which the agent may leave its last message. Run reads the file after the run and
	// changes no file. So the caller removes an old one before every attempt.
	LastMessageFile string
	// WorkDir is the directory in which the agent runs and whose files it changes: the repository or the loop's
	// worktree. WorkDir replaces {repo}, because commands use {repo} as in `-C {repo}`, and an agent must not leave its
	// worktree by it.
	WorkDir string
	Repo    string // the supervised repository; the agent gets it as SUPERLOOP_REPO
	LoopDir string

	Loop, RunID, Role  string
	Iteration, Attempt int      // from 1
	Model, Thinking    string   // "" means the CLI's own default; Thinking is none, minimal, low, standard, high or max
	Permissions        string   // one of the Permit constants; "" leaves the permissions to the command and the CLI
	SessionID          string   // a UUID for a new session, for CLIs that accept one; ignored if Resume is set
	Resume             *Session // the session to resume; nil begins a new one
	MaxCostUSD         float64  // the largest cost of the run, for CLIs with a flag for it; 0 means no bound
	// Asked is permit.Observe or permit.Enforce if the CLI is to ask about its tools, which only an Asker can; "" if not.
	Asked string
}

// Session is a session to resume.
type Session struct {
	ID     string
	Totals *Totals // Learned.Totals of the last run in the session; nil if that had none
}

// The permissions that the configuration can give to a runner or a role.
const (
	PermitRead      = "read-only" // read files; change nothing and run nothing that makes changes
	PermitWorkspace = "workspace" // edit and run in the working directory, in the CLI's own sandbox if it has one
	PermitAll       = "full"      // the CLI checks nothing and uses no sandbox
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

// thinkingLevels are the values of Request.Thinking, from least to most.
var thinkingLevels = [...]string{"none", "minimal", "low", "standard", "high", "max"}

func thinkingLevel(word string) int { return slices.Index(thinkingLevels[:], word) }

// NewSessionID returns a random UUID (version 4), the form in which the CLIs take the id of a session.
func NewSessionID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// messageHalf is the number of bytes that are kept of the beginning and of the end of a last message. An agent writes
// its promise at the end. A mark stands for the part that is left out.
const messageHalf = 512 << 10

// MaxMessage is the largest size of Result.FinalMessage, in bytes, without the mark.
const MaxMessage = 2 * messageHalf

// Runner runs a process tree to its end. *proc.Spawner implements it.
type Runner interface {
	Run(kill context.Context, spec proc.Spec) (proc.Result, error)
}

// Options are the bounds and the watchers of one run. The zero value has no bound and no watcher.
type Options struct {
	Environ []string // the supervisor's environment, as os.Environ returns it
	// Timeout, Inactivity, Grace, Hurry, Log and LogLimit have the same meaning as in proc.Spec.
	Timeout, Inactivity, Grace time.Duration
	Hurry                      <-chan struct{}
	Log                        io.Writer // gets the agent's output
	LogLimit                   int64
	WriteFile                  func(path, text string) error // writes Command.File, if there is one
	Redact                     *redact.Replacer              // removes secrets from log, progress and result; nil: none
	// Run calls Progress with the last line of output (see Result.LastLine) when it has changed, at most ten times a
	// second and once at the end, never twice at a time. Run waits for the last call.
	Progress func(line string)
	// Ask answers what the agent asks for, if Request.Asked is set; see permit.Ask. Hold is the longest time that it takes.
	Ask  permit.Ask
	Hold time.Duration
}

// Result is the outcome of one run.
type Result struct {
	// Learned holds the information from the CLI's output. Its FinalMessage is the role's last message as
	// roles.ChooseLastMessage selects it, at most MaxMessage bytes and the mark, and valid UTF-8. Its content is
	// untrusted.
	Learned
	From           string // one of roles.FromFile, FromStream, FromStdout
	MessageProblem string // why an existing last-message file was not read (a link, a directory, a pipe)
	LastLine       string // the last line of output: at most 200 characters, none of them a control character
	// Cut says why Run itself ended the process early, one of the Cut constants; "" if it did not. Then Proc.Ended is
	// proc.Killed, and Done and Class decide whether the run succeeded.
	Cut  string
	Proc proc.Result
	Held time.Duration // how long the run's clocks stood still while Options.Ask was waited for
}

// The reasons for which Run ends a process.
const (
	CutFinished = "finished" // the stream had ended, and the process did not exit within leaveTime
	CutHopeless = "hopeless" // the CLI retried something that cannot succeed now, or slept longer than waitTime
	CutUnasked  = "unasked"  // the CLI did not keep to the protocol by which it asks before it uses a tool
	CutRefused  = "refused"  // the agent asked for the same thing again although it was refused
)

// leaveTime is the time that a CLI gets to exit after its last event. Some CLIs save their session in this time, and
// some never exit.
const leaveTime = 20 * time.Second

// waitTime is the time that a CLI may sleep before it asks its provider again. No CLI chooses a longer sleep by itself, so
// the provider has asked for one, which may last for hours.
const waitTime = 40 * time.Second

// OK reports whether the run ended well. If the CLI has a structured stream, the stream must also say that the turn is
// over without a failure.
func (r Result) OK() bool {
	if r.Structured && (!r.Done || r.Class != class.None) {
		return false
	}
	if r.Cut == CutFinished {
		return r.Done
	}
	return r.Proc.Ended == proc.Exited && r.Proc.Signal == "" && r.Proc.Code == 0
}

// Run runs the agent to its end and reads its output and its last message. It returns an error only if the run says
// nothing about the agent: the command could not be made, or the Runner failed. An agent that cannot be started, fails,
// is killed or runs out of time is no error; Result.Proc says so. The Result is filled in either case.
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
	spec := proc.Spec{
		Argv: command.Argv, Dir: command.Dir, Env: command.Env, Stdin: command.Stdin,
		Timeout: o.Timeout, Inactivity: o.Inactivity, Grace: o.Grace, Hurry: o.Hurry,
		LogLimit: o.LogLimit, HeadTail: messageHalf, Marker: MarkVariable + "=" + req.RunID,
	}
	talk, err := converse(adapter, req, o, &spec, cut)
	if err != nil {
		cut(nil)
		return res, fmt.Errorf("preparing the agent of the %s: %w", req.Role, err)
	}
	watch := &watcher{finished: talk.hangUp, stream: adapter.Stream(req), progress: startProgress(o.Progress), redact: o.Redact, cut: cut}
	log, closeLog := o.Log, func() error { return nil }
	if log != nil && o.Redact != nil {
		w := o.Redact.Writer(log)
		log, closeLog = w, w.Close
	}
	spec.Log, spec.Stderr = log, watch.stderr
	spec.Stdout = func(p []byte) {
		talk.stdout(p) // first: what it finds out is known before the stream can be Finished
		watch.stdout(p)
	}
	end, err := r.Run(inner, spec)
	cut(nil)
	res.Held = talk.end(&spec)
	// Otherwise the process ended by itself, or the caller ended it.
	if why, ok := errors.AsType[cutError](context.Cause(inner)); ok && end.Ended == proc.Killed && kill.Err() == nil {
		res.Cut = string(why)
	}
	if lerr := closeLog(); lerr != nil && end.LogErr == nil {
		end.LogErr = lerr
	}
	res.Proc = end
	res.Learned, res.LastLine = watch.end(end)
	talk.judge(&res)
	if r, ok := watch.stream.(Recoverer); ok {
		r.Recover(command.Env, command.Dir, &res.Learned)
	}
	res.ErrorText = o.Redact.String(res.ErrorText)
	// door.Ends follows no symbolic link. An agent could point a link at a secret, which superloop would then quote
	// to the next agent.
	file, _, ferr := door.Ends(req.LastMessageFile, messageHalf, messageHalf)
	if ferr != nil && !errors.Is(ferr, fs.ErrNotExist) {
		res.MessageProblem = fmt.Sprintf("the last-message file was not read: %v", ferr)
	}
	said := end.Stdout.Text()
	if res.Structured {
		said = "" // events are not the agent's message
	}
	res.FinalMessage, res.From = roles.ChooseLastMessage(file, roles.Cut(res.FinalMessage, messageHalf, messageHalf), said)
	res.FinalMessage = o.Redact.String(strings.ToValidUTF8(res.FinalMessage, "?"))
	if err != nil {
		return res, fmt.Errorf("running the agent of the %s: %w", req.Role, err)
	}
	return res, nil
}

// cutError is the reason for which Run itself ends a process: CutFinished or CutHopeless.
type cutError string

func (e cutError) Error() string { return string(e) }

// watcher reads the output of a process. It ends the process at once when the stream is Hopeless, after leaveTime when
// the stream stays Finished, and after waitTime when it stays Waiting.
type watcher struct {
	finished func() // called when the stream has become Finished
	progress *progress
	redact   *redact.Replacer
	cut      context.CancelCauseFunc

	mu     sync.Mutex // two goroutines call stdout and stderr
	stream Stream
	last   Settled
	leave  *time.Timer // runs while the stream is Finished or Waiting; nil if the stream never was
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
		w.finished()
		w.leave = time.AfterFunc(leaveTime, func() { w.cut(cutError(CutFinished)) })
	case Waiting:
		w.leave = time.AfterFunc(waitTime, func() { w.cut(cutError(CutHopeless)) })
	}
}

// stay stops the timer that would end the process, because the process may work again, for example when a background
// task has ended.
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
