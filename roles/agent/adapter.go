// Package agent runs one agent CLI headless, for one turn of one role, and says what it learned: the last message and
// where it came from, the session, usage and cost where the CLI tells them, how the process ended, and the line that
// the agent said last, for whoever is watching.
//
// An Adapter is what superloop knows about one CLI: its command line and its output. Adapters lists them; a new one is
// one file and one entry there. "generic" takes any command at all and adds nothing to it.
//
// An exit code is not a verdict, and neither is a last message: several CLIs end with 0 after a failure, and an agent
// may claim what is not so. Run reports; whoever calls it judges, and the gates have the last word.
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

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// Adapter is what superloop knows about one CLI. It holds no state; each run has its own Stream.
type Adapter interface {
	Name() string // one lower-case word, for events and messages
	// Matches tells the CLI by the base name of its program. A wrapper (npx, env, a shell) is not looked through.
	Matches(program string) bool
	Command(req Request, environ []string) (Command, error) // environ is the supervisor's environment
	Stream(req Request) Stream                              // for the output of one run of that command
	Profile() Profile
}

// Stream reads what one process prints. Its methods are never called at the same time, and Finish once, last.
type Stream interface {
	// Stdout and Stderr take the bytes as they come, cut anywhere. They keep no reference to p and must not block.
	Stdout(p []byte)
	Stderr(p []byte)
	LastLine() string // see Result.LastLine; "" while the agent has said nothing
	Settled() Settled
	Finish(end proc.Result) Learned // end is how the process ended
}

// Settled is how far a run is, as its stream tells.
type Settled int

const (
	Going    Settled = iota // the CLI works, or nobody can tell
	Finished                // the stream's last event has come; the process has only to leave
	Hopeless                // what the CLI goes on trying cannot succeed before an operator or time lifts the cause
)

// Learned is what a CLI's own output tells. The zero value is "nothing": the generic adapter never knows more.
type Learned struct {
	Structured   bool   // Done and Class can be believed; without it only the exit code speaks
	Done         bool   // the last event has come and is no error: the CLI's word, not a proof
	FinalMessage string // the agent's final answer; "" when the stream has none
	SessionID    string
	Model        string // the one that answered, of several that of the most output; "" when the stream does not tell
	// Usage and CostUSD are of this run alone, with all models and retries; nil is unknown, which is not 0.
	Usage   Usage
	CostUSD *float64
	// Totals are the session's counters after this run, for CLIs that count by session; the next run that resumes the
	// session passes them back in Request.Resume. nil when the CLI counts by run.
	Totals     *Totals
	StopReason string // the CLI's own word for why it stopped
	Class      class.Class
	ErrorText  string // what the CLI itself says of the failure, in at most 2,000 bytes
	Limit      *Limit // more of a Class of class.Limit (or class.Overloaded) when the provider told more
	// Lines of standard output, those of them that were no JSON, and tool calls that the CLI's permissions refused.
	Lines, Unread, Denied int64
}

// Usage counts tokens of one run; nil is unknown. Whatever the CLI's own way of counting, the first four are disjoint:
// Input is neither read from nor written to a cache, Output includes all reasoning, of which Reasoning is a part.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, Reasoning *int64
}

// Totals are counters that a CLI keeps over a whole session.
type Totals struct {
	Usage   Usage    `json:"usage"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

// Total is the sum of the four disjoint kinds; ok is false when none is known.
func (u Usage) Total() (n int64, ok bool) {
	for _, p := range u.kinds()[:4] {
		ok = ok || *p != nil
		n += deref(*p)
	}
	return n, ok
}

// kinds are the fields, in the order of counterNames.
func (u *Usage) kinds() []**int64 {
	return []**int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.Reasoning}
}

// combined applies f to each kind that one of them knows; unknown is 0 then.
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

// minus is what was used since before; ok is false when a counter went back.
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

// Limit is a refusal that time will lift.
type Limit struct {
	Kind     string    // the provider's word for the window ("five_hour"); "" if not told
	ResetsAt time.Time // zero when the CLI does not tell
}

// Adapters returns all adapters, the most particular first. The last one matches every program.
func Adapters() []Adapter { return []Adapter{claude{}, codex{}, gemini{}, opencode{}, generic{}} }

// For returns the adapter of a CLI: the one that it names, else the first of Adapters that knows its program.
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

// Profile is what is known of a CLI besides its command line and its stream.
type Profile struct {
	Keys  []string // the variables that hold a credential of this CLI; those of other CLIs are withheld from it
	Login string   // the command that the operator types to log in
	// Help gives the subcommands before --help whose help lists the flags of args, which are a command's words after the
	// program; nil: nothing is known of the program. With --version it prints its version.
	Help           func(args []string) []string
	Hidden         []string          // flags that work although the help does not list them
	Replaced       map[string]string // for a flag that releases have dropped, what to write instead
	ChoosesSession bool              // a new session gets the id of Request.SessionID
	// Credential looks at the environment and at files only: has the CLI a login, and whose quota does a run draw on;
	// nil: it cannot be told, and the quota is that of the CLI itself.
	Credential func(req Request, env []string) (Login, Account)
}

// Login says whether a CLI has a credential.
type Login struct {
	State string `json:"state"` // LoginYes, LoginNo or LoginUnknown
	How   string `json:"how"`   // where the credential comes from, or why that is not known; never a secret
}

const LoginYes, LoginNo, LoginUnknown = "yes", "no", "unknown" // the states of a Login

// loginRule is what is known of a login if it holds.
type loginRule struct {
	holds      bool
	state, how string
}

// decide is what the first rule that holds says; the last one always does.
func decide(rules []loginRule) Login {
	r := rules[slices.IndexFunc(rules, func(r loginRule) bool { return r.holds })]
	return Login{r.state, r.how}
}

// Account is whose quota a run draws on: what one loop learns of it holds for all loops on the machine.
type Account struct {
	Provider string `json:"provider"` // one lower-case word: anthropic, openai, google
	ID       string `json:"account"`  // tells accounts of the provider apart; never a credential (see AccountID)
}

// AccountID names an account by its credential without telling it: the same endpoint and credential give the same word
// everywhere on the machine. parts are the two, "" where there is none.
func AccountID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// AccountOf says whose quota a turn would draw on, given the supervisor's environment.
func AccountOf(req Request, environ []string) Account {
	a := For(req.CLI)
	if of := a.Profile().Credential; of != nil {
		_, account := of(req, environment(environ, nil, req.CLI.Env, req))
		return account
	}
	return Account{Provider: a.Name(), ID: AccountID(strings.Join(req.CLI.Command, "\x00"))}
}

// plainHelp is Profile.Help of a CLI with one help.
func plainHelp([]string) []string { return nil }

// valueIn is the value of a variable; the last of several counts.
func valueIn(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// firstIn is the first of the variables that is set and not empty.
func firstIn(env []string, names ...string) (name, value string) {
	for _, name := range names {
		if value := valueIn(env, name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// homeIn is the directory that a variable names, else that below HOME.
func homeIn(env []string, variable, below string) string {
	if dir := valueIn(env, variable); dir != "" {
		return dir
	}
	return filepath.Join(valueIn(env, "HOME"), below)
}

// hostIn reports whether the host of a URL is that domain or below it. The domain begins with a dot.
func hostIn(base, domain string) bool {
	u, err := url.Parse(base)
	return err == nil && strings.HasSuffix("."+strings.ToLower(u.Hostname()), domain)
}

// maxSettings bounds the files of a CLI that are read; .claude.json grows to some megabytes.
const maxSettings = 16 << 20

// readSettings gives a file's content, nil where it cannot be read. Links are followed: many people link settings.
func readSettings(path string) []byte {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxSettings {
		return nil
	}
	text, _ := os.ReadFile(path)
	return text
}

// readJSON reports whether the file is there and was understood.
func readJSON(path string, into any) bool { return json.Unmarshal(readSettings(path), into) == nil }

// firstFile is the first of the paths that leads to a regular file; "" if none does.
func firstFile(paths ...string) string {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// generic adds no flag, not even --model: a script that does not know it would fail. {model} stands for it.
type generic struct{}

func (generic) Name() string          { return "generic" }
func (generic) Matches(string) bool   { return true }
func (generic) Profile() Profile      { return Profile{} }
func (generic) Stream(Request) Stream { return &plainStream{} }

func (generic) Command(req Request, environ []string) (Command, error) {
	return assemble(req, environ, nil, nil)
}

// plainStream reads output of which only the lines are known, of standard error too.
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

func (s *plainStream) Finish(proc.Result) Learned {
	s.note(s.err.rest())
	s.note(s.out.rest())
	return Learned{}
}
