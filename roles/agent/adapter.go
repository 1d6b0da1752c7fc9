// Package agent runs one agent CLI headless, for one turn of one role. It returns what the run shows: the last message
// and its source, the session, usage and cost where the CLI tells them, how the process ended, and the last line of
// output for a watcher.
//
// An Adapter knows the command line and the output of one CLI. Adapters lists all adapters. A new CLI needs a few files
// and one entry in that list. The adapter "generic" takes any command and adds nothing to it.
//
// Neither an exit code nor a last message is a verdict: several CLIs exit with 0 after a failure, and an agent may
// claim something untrue. Run only reports. Its caller judges, and the gates decide.
package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

// Adapter is superloop's knowledge of one CLI. It holds no state; each run has its own Stream.
type Adapter interface {
	Name() string // one lower-case word, for events and messages
	// Matches reports whether program, the base name of a command's program, is this CLI. It does not recognise a CLI
	// behind a wrapper (npx, env, a shell).
	Matches(program string) bool
	Command(req Request, environ []string) (Command, error) // environ is the supervisor's environment
	Stream(req Request) Stream                              // reads the output of one run of the command
	Profile() Profile
}

// Stream reads the output of one process. The caller never calls two methods at the same time. It calls Finish once, as
// the last method.
type Stream interface {
	// Stdout and Stderr take the output in pieces of any size. They keep no reference to p and must not block.
	Stdout(p []byte)
	Stderr(p []byte)
	LastLine() string // see Result.LastLine; "" while the agent has printed nothing
	Settled() Settled
	Finish(end proc.Result) Learned // end is how the process ended
}

// Settled says, as far as the stream shows, whether a run still has something to do.
type Settled int

const (
	Going    Settled = iota // the CLI works, or the stream does not show its state
	Finished                // the last event has come; the process only has to exit
	Hopeless                // the CLI retries something that cannot succeed before an operator or time removes the cause
	Waiting                 // the CLI sleeps before it asks its provider again, and does not say for how long
)

// Learned holds the information from a CLI's own output. The zero value means that the output told nothing, which is
// always the case for the generic adapter.
type Learned struct {
	Structured   bool   // Done and Class are valid; if false, only the exit code counts
	Done         bool   // the last event has come and is no error; this is the CLI's claim, not a proof
	FinalMessage string // the agent's final answer; "" if the stream has none
	SessionID    string
	Model        string // the model that answered, of several the one with the most output; "" if unknown
	// Usage and CostUSD are those of this run alone, including all models and retries. nil means unknown, which is not
	// 0.
	Usage   Usage
	CostUSD *float64
	// Totals are the session's counters after this run, for CLIs that count by session. The next run that resumes the
	// session passes them back in Request.Resume. Totals is nil if the CLI counts by run.
	Totals     *Totals
	StopReason string // the reason for which the CLI stopped, in its own words
	Class      class.Class
	ErrorText  string // the CLI's own message about the failure, at most 2,000 bytes
	Limit      *Limit // details of class.Limit (or class.Overloaded), if the provider told any
	// Lines counts the lines of standard output, Unread those of them that were no JSON, and Denied the tool calls that
	// the CLI's permissions refused.
	Lines, Unread, Denied int64
}

// Usage counts the tokens of one run; nil is unknown. Whatever the CLI's own way of counting, the first four are
// disjoint: Input contains no token that was read from or written to a cache. Output includes all reasoning, which
// Reasoning counts separately.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, Reasoning *int64
}

// Totals are counters that a CLI keeps over a whole session.
type Totals struct {
	Usage   Usage    `json:"usage"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

// Total returns the sum of the four disjoint kinds. ok is false if none is known.
func (u Usage) Total() (n int64, ok bool) {
	for _, p := range u.kinds()[:4] {
		ok = ok || *p != nil
		n += deref(*p)
	}
	return n, ok
}

// kinds returns pointers to the fields, in the order of counterNames.
func (u *Usage) kinds() []**int64 {
	return []**int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.Reasoning}
}

// combined applies f to each kind that u or v knows. If only one of them knows the kind, the other counts as 0.
func (u Usage) combined(v Usage, f func(a, b int64) int64) (out Usage) {
	a, b := u.kinds(), v.kinds()
	for i, to := range out.kinds() {
		if *a[i] != nil || *b[i] != nil {
			n := f(deref(*a[i]), deref(*b[i]))
			*to = &n
		}
	}
	return out
}

func (u Usage) plus(v Usage) Usage { return u.combined(v, func(a, b int64) int64 { return a + b }) }

// minus returns the usage since before. ok is false if a counter decreased.
func (u Usage) minus(before Usage) (since Usage, ok bool) {
	now, had := u.kinds(), before.kinds()
	ok = true
	for i, to := range since.kinds() {
		if *now[i] != nil {
			left := **now[i] - deref(*had[i])
			ok, *to = ok && left >= 0, &left
		}
	}
	return since, ok
}

func deref(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// Limit describes a refusal that ends with time.
type Limit struct {
	Kind     string    // the provider's name of the window ("five_hour"); "" if unknown
	ResetsAt time.Time // the end of the limit; zero if the CLI does not tell it
}

// Adapters returns all adapters, the most specific first. The last one matches every program.
func Adapters() []Adapter {
	return []Adapter{claude{}, codex{}, gemini{}, opencode{}, qwen{}, copilot{}, pi{}, generic{}}
}

// For returns the adapter of a CLI: the adapter that cli names, else the first of Adapters that matches its program.
func For(cli CLI) Adapter {
	program := ""
	if len(cli.Command) > 0 {
		program = filepath.Base(cli.Command[0])
	}
	for _, a := range Adapters() {
		if a.Name() == cli.Adapter || cli.Adapter == "" && a.Matches(program) {
			return a
		}
	}
	return generic{}
}

// Profile holds superloop's knowledge of a CLI besides its command line and its stream.
type Profile struct {
	Keys  []string // the variables that hold a credential of this CLI; superloop withholds those of other CLIs from it
	Login string   // the command that the operator types to log in
	// Help returns the subcommands that must precede --help, so that the help lists the flags of args. args are the
	// words of a command after the program. If Help is nil, superloop does not know the program. Otherwise the program
	// prints its version with --version.
	Help           func(args []string) []string
	Hidden         []string          // flags that work although the help does not list them
	Replaced       map[string]string // for a flag that newer releases have dropped, its replacement
	ChoosesSession bool              // superloop chooses the id of a new session, in Request.SessionID
	// Credential returns whether the CLI has a login, and the account whose quota a run uses. It looks only at the
	// environment and at files. If Credential is nil, the login is unknown, and the CLI itself counts as the account.
	Credential func(req Request, env []string) (Login, Account)
}

// Login says whether a CLI has a credential.
type Login struct {
	State string `json:"state"` // LoginYes, LoginNo or LoginUnknown
	How   string `json:"how"`   // where the credential comes from, or why that is not known; never a secret
}

const LoginYes, LoginNo, LoginUnknown = "yes", "no", "unknown" // the states of a Login

// loginRule is a condition and the login that it proves.
type loginRule struct {
	holds      bool
	state, how string
}

// decide returns the login of the first rule that holds. The last rule always holds.
func decide(rules []loginRule) Login {
	r := rules[slices.IndexFunc(rules, func(r loginRule) bool { return r.holds })]
	return Login{r.state, r.how}
}

// Account is the account whose quota a run uses. A limit that one loop meets holds for all loops on the machine that
// use the account.
type Account struct {
	Provider string `json:"provider"` // one lower-case word: anthropic, openai, google
	ID       string `json:"account"`  // distinguishes accounts of the provider; never a credential (see AccountID)
}

// AccountID returns an id for an account that does not reveal its credential. The same parts give the same id on every
// machine. parts are the endpoint and the credential or the provider's own name of the account, "" for an unknown one.
func AccountID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// ours begins the ids of accounts that only their machine tells apart.
const ours = "here-"

// accountHere returns an id for an account of which only a file of this machine or a command is known. On another machine
// the same parts may be another account.
func accountHere(parts ...string) string { return ours + AccountID(parts...) }

// Everywhere reports whether the account has the same ID on every machine.
func (a Account) Everywhere() bool { return !strings.HasPrefix(a.ID, ours) }

// AccountOf returns the account whose quota a turn would use, given the supervisor's environment.
func AccountOf(req Request, environ []string) Account {
	a := For(req.CLI)
	if of := a.Profile().Credential; of != nil {
		_, account := of(req, environment(environ, nil, req.CLI.Env, req))
		return account
	}
	return Account{Provider: a.Name(), ID: accountHere(strings.Join(req.CLI.Command, "\x00"))}
}

// plainHelp is the Profile.Help of a CLI with one help for all flags.
func plainHelp([]string) []string { return nil }

// valueIn returns the value of a variable. If env has several entries of the name, the last one counts.
func valueIn(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// firstIn returns the first of the variables that is set and not empty.
func firstIn(env []string, names ...string) (name, value string) {
	for _, name := range names {
		if value := valueIn(env, name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// homeIn returns the directory that the variable names, or else the directory below in HOME.
func homeIn(env []string, variable, below string) string {
	if dir := valueIn(env, variable); dir != "" {
		return dir
	}
	return filepath.Join(valueIn(env, "HOME"), below)
}

// hostIn reports whether the host of the URL base is in domain. domain begins with a dot.
func hostIn(base, domain string) bool {
	u, err := url.Parse(base)
	return err == nil && strings.HasSuffix("."+strings.ToLower(u.Hostname()), domain)
}

// maxSettings is the largest file of a CLI that is read, in bytes. .claude.json grows to some megabytes.
const maxSettings = 16 << 20

// readSettings returns the content of a file, or nil if it cannot be read. It follows symbolic links, because many
// users link their settings.
func readSettings(path string) []byte {
	text, _ := door.ReadOwn(path, maxSettings)
	return text
}

// readJSON reads a JSON file into into. It reports whether the file exists and is valid.
func readJSON(path string, into any) bool { return json.Unmarshal(readSettings(path), into) == nil }

// firstFile returns the first of the paths that leads to a regular file; "" if none does.
func firstFile(paths ...string) string {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// generic is the adapter for any program. It adds no flag, not even --model, because a script that does not know the
// flag would fail. The owner's command names the model by {model}.
type generic struct{}

func (generic) Name() string          { return "generic" }
func (generic) Matches(string) bool   { return true }
func (generic) Profile() Profile      { return Profile{} }
func (generic) Stream(Request) Stream { return &plainStream{} }

func (generic) Command(req Request, environ []string) (Command, error) {
	return assemble(req, environ, nil, nil)
}

// plainStream reads plain text from standard output and standard error. It learns only the last line.
type plainStream struct {
	out, err lineTail
	last     string
}

func (s *plainStream) Stdout(p []byte)  { s.note(s.out.feed(p)) }
func (s *plainStream) Stderr(p []byte)  { s.note(s.err.feed(p)) }
func (s *plainStream) Settled() Settled { return Going }
func (s *plainStream) LastLine() string { return s.last }

func (s *plainStream) note(line string) {
	if line != "" {
		s.last = line
	}
}

// Finish finds out whether a program that failed says of its provider that it is to be asked again later. Only the last
// lines count, those of standard error first: with them a program tells what ended it. An agent may write the same
// words, so they mean no more than a wait or another runner.
func (s *plainStream) Finish(res proc.Result) Learned {
	s.note(s.err.rest())
	s.note(s.out.rest())
	if res.Ended != proc.Exited || res.Code == 0 {
		return Learned{}
	}
	for _, c := range []struct {
		text  string
		lines int
	}{{res.Stderr.Text(), plainErrors}, {res.Stdout.Text(), plainWords}} {
		lines := strings.FieldsFunc(c.text, func(r rune) bool { return r == '\n' || r == '\r' })
		said := strings.Join(lines[max(0, len(lines)-c.lines):], "\n")
		if found := classOf("generic", said); found != class.None {
			l := Learned{Structured: true, Class: found, ErrorText: errorText(text.Uncoloured(said))}
			l.limited("", resetIn(said, time.Now(), time.Local))
			return l
		}
	}
	return Learned{}
}

// The last lines of standard error and of standard output in which a program without an adapter tells what ended it.
const (
	plainErrors = 8
	plainWords  = 2
)
