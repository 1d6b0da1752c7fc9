package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/proc"
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
