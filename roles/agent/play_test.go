package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

// play is one run of a real CLI against a model that follows a script. Its
// streams are recorded in testdata/streams/CLI/NAME.{out,err,end}; record_test.go
// plays it again with the CLIs of this machine.
type play struct {
	name   string
	model  string
	script func(file string) mockapi.Script
	ask    func(*Request)
	// without is a variable that the CLI does not get.
	without string
	// cut ends the run with SIGTERM when the agent says a line that holds this.
	cut  string
	want told
	// again says that the CLI tells an answer that failed before it tries again.
	again bool
	// answer answers what the CLI asks for; nil allows it.
	answer permit.Ask
}

// told is what is expected of Learned. Usage is as usageWord has it.
type told struct {
	class   class.Class
	text    string // of ErrorText
	final   string
	stop    string
	usage   string
	cost    float64 // 0: unknown
	denied  int64
	unread  int64         // the lines that are no event
	wait    time.Duration // from the last event to the end of the limit; -1: a limit without a time
	window  string
	settled Settled
	last    string
	plain   bool // no event has come
}

// recorded is how the process of a play ended.
type recorded struct {
	Code   int         `json:"code"`
	Signal string      `json:"signal,omitempty"`
	Ended  proc.Reason `json:"ended"`
}

func streamFile(cli, name, end string) string {
	return filepath.Join("testdata", "streams", cli, name+"."+end)
}

// replay gives the recording of a play.
func replay(t testing.TB, cli, name string) (stdout, stderr []byte, end proc.Result) {
	t.Helper()
	read := func(kind string) []byte {
		text, err := os.ReadFile(streamFile(cli, name, kind))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var r recorded
	if err := json.Unmarshal(read("end"), &r); err != nil {
		t.Fatal(err)
	}
	return read("out"), read("err"), proc.Result{Code: r.Code, Signal: r.Signal, Ended: r.Ended}
}

// usageWord is a usage in one word: input, r(ead from the cache), w(ritten to
// it), and after > the output with its reasoning in brackets; ? is unknown.
func usageWord(u Usage) string {
	n := func(p *int64) string {
		if p == nil {
			return "?"
		}
		return fmt.Sprint(*p)
	}
	if u == (Usage{}) {
		return "?"
	}
	return n(u.Input) + "+" + n(u.CacheRead) + "r+" + n(u.CacheWrite) + "w>" + n(u.Output) + "(" + n(u.Reasoning) + ")"
}

// wrong compares what was learned with what is expected; "" is no difference.
func (w told) wrong(got Learned, settled Settled, last string) string {
	var b strings.Builder
	differ := func(what string, got, want any) {
		if got != want {
			fmt.Fprintf(&b, "%s is %v, want %v\n", what, got, want)
		}
	}
	differ("Done", got.Done, w.class == class.None && !w.plain)
	differ("Structured", got.Structured, !w.plain)
	differ("Class", got.Class, w.class)
	differ("FinalMessage", got.FinalMessage, w.final)
	differ("StopReason", got.StopReason, w.stop)
	differ("Usage", usageWord(got.Usage), w.usage)
	differ("Denied", got.Denied, w.denied)
	differ("Unread", got.Unread, w.unread)
	differ("Settled", settled, w.settled)
	differ("LastLine", last, w.last)
	differ("a session's id", got.SessionID != "", !w.plain)
	if !strings.Contains(got.ErrorText, w.text) || (got.ErrorText != "") != (w.text != "") {
		differ("ErrorText", got.ErrorText, w.text)
	}
	cost := 0.0
	if got.CostUSD != nil {
		cost = *got.CostUSD
	}
	if diff := cost - w.cost; diff > 1e-9 || diff < -1e-9 {
		differ("CostUSD", cost, w.cost)
	}
	if (got.Limit != nil) != (w.wait != 0) {
		differ("Limit", got.Limit, w.wait)
	} else if got.Limit != nil {
		differ("the window", got.Limit.Kind, w.window)
		differ("a time of reset", !got.Limit.ResetsAt.IsZero(), w.wait > 0)
	}
	return b.String()
}

// feed gives a stream all of its input in pieces of that size; 0 is whole. How
// the two were mixed is not recorded: in a run that was cut what standard error
// said came last, in any other the events did.
func (p play) feed(s Stream, stdout, stderr []byte, piece int) {
	type side struct {
		text []byte
		to   func([]byte)
	}
	sides := []side{{stderr, s.Stderr}, {stdout, s.Stdout}}
	if p.cut != "" {
		slices.Reverse(sides)
	}
	for _, side := range sides {
		for rest := side.text; len(rest) > 0; {
			n := len(rest)
			if piece > 0 {
				n = min(n, piece)
			}
			side.to(append([]byte(nil), rest[:n]...))
			rest = rest[n:]
		}
	}
}

// request is the play's, as far as a stream looks at it.
func (p play) request() Request {
	r := Request{WorkDir: "/work/repo"} // as in the recordings
	if p.ask != nil {
		p.ask(&r)
	}
	return r
}

func adapterFor(t testing.TB, name string) Adapter {
	t.Helper()
	a := For(CLI{Command: []string{name}})
	if a.Name() != name {
		t.Fatalf("the adapter of %s is %s", name, a.Name())
	}
	return a
}

// loginOf and accountOf are what a CLI's credential tells.
func loginOf(cli string, env []string) Login {
	login, _ := For(CLI{Adapter: cli}).Profile().Credential(Request{}, env)
	return login
}

func accountOf(cli string, env []string) Account {
	_, account := For(CLI{Adapter: cli}).Profile().Credential(Request{}, env)
	return account
}

// plays are all that is recorded, by CLI.
func plays() map[string][]play {
	return map[string][]play{"gemini": geminiPlays(), "opencode": opencodePlays(), "pi": piPlays()}
}

func TestRecordedStreams(t *testing.T) {
	t.Parallel()
	for cli, list := range plays() {
		for _, p := range list {
			t.Run(cli+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				stdout, stderr, end := replay(t, cli, p.name)
				s := adapterFor(t, cli).Stream(p.request())
				p.feed(s, stdout, stderr, 0)
				settled := s.Settled()
				got := s.Finish(end)
				if wrong := p.want.wrong(got, settled, s.LastLine()); wrong != "" {
					t.Error(wrong)
				}
				if got.Lines != int64(strings.Count(string(stdout), "\n")) && !p.want.plain {
					t.Errorf("%d lines", got.Lines)
				}
				if p.want.wait > 0 && got.Limit != nil {
					lastAt := lastEvent(t, stdout)
					if d := got.Limit.ResetsAt.Sub(lastAt) - p.want.wait; d < -2*time.Second || d > 2*time.Second {
						t.Errorf("the limit ends %v after the last event, want %v", got.Limit.ResetsAt.Sub(lastAt), p.want.wait)
					}
				}
			})
		}
	}
}

// lastEvent is the time of the last event.
func lastEvent(t *testing.T, stdout []byte) time.Time {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(stdout)), "\n")
	var event struct{ Timestamp json.RawMessage }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &event); err != nil {
		t.Fatal(err)
	}
	var ms int64
	if json.Unmarshal(event.Timestamp, &ms) == nil {
		return time.UnixMilli(ms)
	}
	var at time.Time
	if err := json.Unmarshal(event.Timestamp, &at); err != nil {
		t.Fatal(err)
	}
	return at
}
