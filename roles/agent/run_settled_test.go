package agent

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// saying are lines after which claude's stream is so far.
var saying = map[Settled]string{
	Going:    `{"type":"assistant","message":{"id":"1","model":"m","content":[]},"session_id":"s"}`,
	Finished: `{"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"s"}`,
	Hopeless: `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected"},"session_id":"s"}`,
}

// runnerFunc is a Runner that starts nothing.
type runnerFunc func(kill context.Context, spec proc.Spec) (proc.Result, error)

func (f runnerFunc) Run(kill context.Context, spec proc.Spec) (proc.Result, error) {
	return f(kill, spec)
}

// A run is ended at once when it is hopeless, after leaveTime when its stream
// has finished, and not at all when it began again in that time.
func TestRunCutsWhatHasSettled(t *testing.T) {
	t.Parallel()
	type at struct {
		after time.Duration
		state Settled
	}
	for name, c := range map[string]struct {
		states []at
		lasts  time.Duration // what the process takes by itself
		killed time.Duration // when somebody else ends it; 0 is never
		ends   time.Duration
		cut    string
	}{
		"by itself":             {lasts: time.Hour, ends: time.Hour},
		"hopeless":              {states: []at{{time.Minute, Hopeless}}, lasts: time.Hour, ends: time.Minute, cut: CutHopeless},
		"finished and lingers":  {states: []at{{time.Minute, Finished}}, lasts: time.Hour, ends: time.Minute + leaveTime, cut: CutFinished},
		"finished and leaves":   {states: []at{{time.Minute, Finished}}, lasts: time.Minute + time.Second, ends: time.Minute + time.Second},
		"finished, works again": {states: []at{{time.Minute, Finished}, {time.Second, Going}}, lasts: time.Hour, ends: time.Hour},
		"finished twice": {states: []at{{time.Minute, Finished}, {time.Second, Going}, {time.Minute, Finished}}, lasts: time.Hour,
			ends: 2*time.Minute + time.Second + leaveTime, cut: CutFinished},
		"finished, then killed": {states: []at{{time.Minute, Finished}}, lasts: time.Hour, killed: time.Minute + time.Second, ends: time.Minute + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(t, "p")
			req.CLI.Command = []string{"claude"}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				kill, stop := context.WithCancel(t.Context())
				defer stop()
				if c.killed > 0 {
					time.AfterFunc(c.killed, stop)
				}
				res, err := Run(kill, runnerFunc(func(kill context.Context, spec proc.Spec) (proc.Result, error) {
					go func() {
						for _, s := range c.states {
							time.Sleep(s.after)
							spec.Stdout([]byte(saying[s.state] + "\n"))
						}
					}()
					select {
					case <-kill.Done():
						return proc.Result{Ended: proc.Killed}, nil
					case <-time.After(c.lasts):
						return proc.Result{Ended: proc.Exited}, nil
					}
				}), req, Options{})
				if err != nil || res.Cut != c.cut || time.Since(began) != c.ends {
					t.Errorf("cut %q after %s, want %q after %s (%v)", res.Cut, time.Since(began), c.cut, c.ends, err)
				}
			})
		})
	}
}

// A CLI that sleeps because its provider said so is ended within a minute, as limited, however it tells that it sleeps; a
// short sleep, and one from which it has woken, are left to it.
func TestRunEndsSleepers(t *testing.T) {
	t.Parallel()
	const (
		codexTurn = `{"type":"thread.started","thread_id":"t"}` + "\n" + `{"type":"turn.started"}`
		codexWait = "2000-01-01T00:00:00Z  WARN a{b=1}: codex_core::responses_retry: stream disconnected - retrying sampling request (1/5 in %s)... turn_id=1 retries=1 max_retries=5 sampling_error=exceeded retry limit, last status: 429 Too Many Requests"
		codexSaid = `{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"x"}}`
		begun     = `{"type":"init","session_id":"1","model":"m"}`
		geminiSad = "Attempt 1 failed: Resource has been exhausted (e.g. check quota).\nSuggested retry after 1s.. Retrying after %dms..."
		asks      = `timestamp=0 level=INFO run=1 message=stream providerID=a modelID=m session.id=%s small=false`
		refused   = `timestamp=0 level=ERROR run=1 message="stream error" providerID=a session.id=s error.error="AI_APICallError: rate limit"`
	)
	for name, c := range map[string]struct {
		cli, stdout, stderr, later string // later comes on standard error after ten seconds, or on standard output if it is JSON
		ends                       time.Duration
		resets                     time.Duration // from the beginning; 0 if it is not known
	}{
		"codex":                   {cli: "codex", stdout: codexTurn, stderr: fmt.Sprintf(codexWait, "3599.9s"), ends: 0, resets: 3599900 * time.Millisecond},
		"codex, short":            {cli: "codex", stdout: codexTurn, stderr: fmt.Sprintf(codexWait, "999.7ms"), ends: time.Hour},
		"codex, that had worked":  {cli: "codex", stdout: codexTurn + "\n" + codexSaid, stderr: fmt.Sprintf(codexWait, "3599.9s"), ends: leaveTime, resets: 3599900 * time.Millisecond},
		"codex, awake":            {cli: "codex", stdout: codexTurn + "\n" + codexSaid, stderr: fmt.Sprintf(codexWait, "61s"), later: codexSaid, ends: time.Hour},
		"gemini":                  {cli: "gemini", stdout: begun, stderr: fmt.Sprintf(geminiSad, 61_000), ends: 0, resets: 61 * time.Second},
		"gemini, short":           {cli: "gemini", stdout: begun, stderr: fmt.Sprintf(geminiSad, 5000), ends: time.Hour},
		"opencode":                {cli: "opencode", stderr: fmt.Sprintf(asks, "s") + "\n" + refused, ends: waitTime},
		"opencode, awake":         {cli: "opencode", stderr: fmt.Sprintf(asks, "s") + "\n" + refused, later: fmt.Sprintf(asks, "s"), ends: time.Hour},
		"opencode, a sub-agent's": {cli: "opencode", stderr: fmt.Sprintf(asks, "s") + "\n" + fmt.Sprintf(asks, "other") + "\n" + refused, ends: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(t, "p")
			req.CLI.Command = []string{c.cli}
			synctest.Test(t, func(t *testing.T) { // its clock begins with the year 2000
				began := time.Now()
				res, err := Run(t.Context(), runnerFunc(func(kill context.Context, spec proc.Spec) (proc.Result, error) {
					spec.Stdout([]byte(c.stdout + "\n"))
					spec.Stderr([]byte(c.stderr + "\n"))
					end := time.After(time.Hour)
					for wake := time.After(10 * time.Second); ; {
						select {
						case <-wake:
							if c.later != "" && c.later[0] == '{' {
								spec.Stdout([]byte(c.later + "\n"))
							} else {
								spec.Stderr([]byte(c.later + "\n"))
							}
						case <-kill.Done():
							return proc.Result{Ended: proc.Killed, LastOutput: began}, nil
						case <-end:
							return proc.Result{Ended: proc.Exited}, nil
						}
					}
				}), req, Options{})
				if err != nil || time.Since(began) != c.ends {
					t.Fatalf("it ended after %s, want %s (%v)", time.Since(began), c.ends, err)
				}
				if c.ends == time.Hour {
					return
				}
				if res.Class != class.Limit || res.OK() || res.Cut == "" {
					t.Errorf("class %q, cut %q", res.Class, res.Cut)
				}
				if l := res.Limit; c.resets > 0 && (l == nil || l.ResetsAt.Sub(began) != c.resets) || c.resets == 0 && l != nil && !l.ResetsAt.IsZero() {
					t.Errorf("the limit is %+v", l)
				}
			})
		})
	}
}
