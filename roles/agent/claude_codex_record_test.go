package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
)

// TestRealClaudeAndCodex plays everything with the CLIs themselves. With
// SUPERLOOP_TEST_RECORD set, to a part of the plays' names or "all", it also
// writes what they said to testdata/streams, below the name of the release that
// SUPERLOOP_TEST_RELEASE gives, if it does.
func TestRealClaudeAndCodex(t *testing.T) {
	release := os.Getenv("SUPERLOOP_TEST_RELEASE")
	for _, cli := range []string{"claude", "codex"} {
		t.Run(cli, func(t *testing.T) {
			st := newStage(t, cli)
			for _, p := range playsOf(cli, release) {
				t.Run(p.name, func(t *testing.T) {
					res, server := st.perform(t, p)
					got := res.Learned
					if res.From == "stdout" {
						got.FinalMessage = ""
					}
					if wrong := p.want.wrongAt(got, p.want.settled, res.LastLine, res.Proc.LastOutput); wrong != "" {
						t.Errorf("%s%s ended with %d%s after %v\n%s\n%s", wrong, res.Proc.Ended, res.Proc.Code, res.Proc.Signal, res.Proc.Duration, res.Proc.Stdout.Text(), res.Proc.Stderr.Text())
					}
					if told, n := mockapi.Total(server.Calls()); got.Done && (n == 0 || kinds(got.Usage) != [4]int64{told.Input, told.Output, told.CacheRead, told.CacheWrite}) {
						t.Errorf("usage %v, but the model told %+v in %d answers", kinds(got.Usage), told, n)
					}
					p.name = release + p.name
					st.write(t, p, res)
					st.writeWhen(t, p, res)
				})
			}
		})
	}
}

// playsOf are the plays of a CLI as a release of it plays them; "" is 2.1.197 of
// claude and 0.169.0 of codex.
func playsOf(cli, release string) []play {
	if cli == "codex" {
		return codexPlays()
	}
	list := claudePlays()
	for i := range list {
		p := &list[i]
		p.model = sonnet
		if release == nextClaude {
			nextClaudeWants(p)
		}
	}
	return list
}

func kinds(u Usage) [4]int64 {
	return [4]int64{deref(u.Input), deref(u.Output), deref(u.CacheRead), deref(u.CacheWrite)}
}

// recordedWhen is what these recordings have besides how the process ended.
type recordedWhen struct {
	recorded
	At   time.Time     `json:"at"` // of the last output
	Took time.Duration `json:"took"`
}

func (st *stage) writeWhen(t *testing.T, p play, res Result) {
	t.Helper()
	path := streamFile(st.cli, p.name, "end")
	if which := os.Getenv("SUPERLOOP_TEST_RECORD"); which == "" || which != "all" && !strings.Contains(p.name, which) {
		return
	}
	text, err := json.Marshal(recordedWhen{recorded{res.Proc.Code, res.Proc.Signal, res.Proc.Ended}, res.Proc.LastOutput.UTC().Truncate(time.Second), res.Proc.Duration.Round(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	// claude names directories after the one that it runs in.
	out := streamFile(st.cli, p.name, "out")
	if text, err = os.ReadFile(out); err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte(notPlain().ReplaceAllString(st.root, "-")), []byte("-work"))
	if err := os.WriteFile(out, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// replayAt is replay with the time of the last output.
func replayAt(t testing.TB, cli, name string) (stdout, stderr []byte, end proc.Result) {
	t.Helper()
	stdout, stderr, end = replay(t, cli, name)
	text, err := os.ReadFile(streamFile(cli, name, "end"))
	if err != nil {
		t.Fatal(err)
	}
	var when recordedWhen
	if err := json.Unmarshal(text, &when); err != nil {
		t.Fatal(err)
	}
	end.LastOutput, end.Duration = when.At, when.Took
	return stdout, stderr, end
}

// wrongAt is wrong for a CLI whose clock says minutes; "?" as the last line or a
// text is any.
func (w told) wrongAt(got Learned, settled Settled, last string, at time.Time) string {
	if w.last == "?" && last != "" {
		w.last = last
	}
	if w.text == "?" {
		w.text = got.ErrorText
	}
	if strings.HasSuffix(w.usage, "(?)") && got.Usage.Reasoning != nil { // newer releases tell it
		w.usage = strings.Replace(w.usage, "(?)", fmt.Sprintf("(%d)", *got.Usage.Reasoning), 1)
	}
	if w.plain {
		got.Unread = 0
	}
	wrong := w.wrong(got, settled, last)
	if w.wait > 0 && got.Limit != nil {
		if off := got.Limit.ResetsAt.Sub(at.Add(w.wait)); off < -20*time.Second || off > 62*time.Second {
			wrong += fmt.Sprintf("the limit ends %v after the last output, want %v\n", got.Limit.ResetsAt.Sub(at), w.wait)
		}
	}
	return wrong
}

// TestRealResume: a session that goes on counts each run by itself, whichever
// way the CLI counts.
func TestRealResume(t *testing.T) {
	for _, cli := range []string{"claude", "codex"} {
		t.Run(cli, func(t *testing.T) {
			st := newStage(t, cli)
			reply := func(n int64) func(string) mockapi.Script {
				return sequence(mockapi.Reply{Text: fmt.Sprintf("Number %d.", n), Usage: mockapi.Usage{Input: 1000 * n, CacheRead: 100 * n, CacheWrite: 10 * n, Output: 50 * n}})
			}
			model := map[string]string{"claude": sonnet}[cli]
			run := func(n int64, s *Session) Result {
				p := play{name: fmt.Sprint("resume-", n), model: model, script: reply(n), ask: func(r *Request) {
					r.Resume, r.Permissions = s, PermitWorkspace
					if s == nil && cli == "claude" {
						r.SessionID = "11111111-2222-4333-8444-555555555555"
					}
				}}
				res, server := st.perform(t, p)
				told, _ := mockapi.Total(server.Calls())
				if !res.Done || kinds(res.Usage) != [4]int64{told.Input, told.Output, told.CacheRead, told.CacheWrite} || told.Input != 1000*n {
					t.Errorf("run %d: %+v used %v, the model told %+v\n%s%s", n, res.Learned, kinds(res.Usage), told, res.Proc.Stdout.Text(), res.Proc.Stderr.Text())
				}
				if cli == "claude" {
					want := float64(n) * (1000*3 + 100*0.3 + 10*3.75 + 50*15) / 1e6
					if res.CostUSD == nil || *res.CostUSD < want-1e-9 || *res.CostUSD > want+1e-9 {
						t.Errorf("run %d costs %v, want %v", n, res.CostUSD, want)
					}
				}
				p.name = os.Getenv("SUPERLOOP_TEST_RELEASE") + p.name
				st.write(t, p, res)
				st.writeWhen(t, p, res)
				return res
			}
			first := run(1, nil)
			second := run(2, &Session{ID: first.SessionID, Totals: first.Totals})
			third := run(5, &Session{ID: first.SessionID, Totals: second.Totals})
			if first.SessionID == "" || second.SessionID != first.SessionID || third.SessionID != first.SessionID {
				t.Errorf("sessions %q, %q, %q", first.SessionID, second.SessionID, third.SessionID)
			}
		})
	}
}

// TestRealRecovery: the files of a CLI tell what a killed run used, and what the
// sub-agents of codex did.
func TestRealRecovery(t *testing.T) {
	for _, cli := range []string{"claude", "codex"} {
		t.Run(cli, func(t *testing.T) {
			st := newStage(t, cli)
			home := map[string]string{"claude": ".claude/projects", "codex": ".codex/sessions"}[cli]
			for _, p := range playsOf(cli, "") {
				if p.name != "killed" {
					continue
				}
				res, server := st.perform(t, p)
				told, n := mockapi.Total(server.Calls())
				s := adapterFor(t, cli).Stream(Request{})
				p.feed(s, []byte(res.Proc.Stdout.Text()), []byte(res.Proc.Stderr.Text()), 0)
				got := s.Finish(res.Proc)
				s.(Recoverer).Recover([]string{"HOME=" + st.path("home")}, st.path("repo"), &got)
				if n != 1 || kinds(got.Usage) != [4]int64{told.Input, told.Output, told.CacheRead, told.CacheWrite} || got.Model == "" {
					t.Errorf("%v by %q, the model told %+v in %d answers, below %s", kinds(got.Usage), got.Model, told, n, filepath.Join(st.path("home"), home))
				}
			}
		})
	}
}
