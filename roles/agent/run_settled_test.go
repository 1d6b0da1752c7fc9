package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

// A run is ended at once when it is hopeless, after leaveTime when its stream
// has finished, and not at all when it began again in that time.
func TestUnderWatch(t *testing.T) {
	t.Parallel()
	type at struct {
		after time.Duration
		state Settled
	}
	for name, c := range map[string]struct {
		states []at
		lasts  time.Duration // what the process takes by itself
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				settled := make(chan Settled, 1)
				go func() {
					for _, s := range c.states {
						time.Sleep(s.after)
						settled <- s.state
					}
				}()
				_, cut, err := underWatch(t.Context(), settled, func(kill context.Context) (proc.Result, error) {
					select {
					case <-kill.Done():
						return proc.Result{Ended: proc.Killed}, nil
					case <-time.After(c.lasts):
						return proc.Result{Ended: proc.Exited}, nil
					}
				})
				if err != nil || cut != c.cut || time.Since(began) != c.ends {
					t.Errorf("cut %q after %s, want %q after %s (%v)", cut, time.Since(began), c.cut, c.ends, err)
				}
			})
		})
	}
}
