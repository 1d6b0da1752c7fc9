package fleetdrill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// join makes another machine of the fleet: its own state directory, nothing else shared but the server.
func (w *world) join(name string) (*world, error) {
	invitation, err := w.fleet("invite")
	if err != nil {
		return nil, err
	}
	top := filepath.Join(w.top, name)
	if err := os.MkdirAll(top, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(top, "invitation")
	if err := os.WriteFile(file, []byte(invitation), 0o600); err != nil {
		return nil, err
	}
	other := &world{top: top, bin: w.bin, env: append(slices.Clone(w.env), "XDG_STATE_HOME="+filepath.Join(top, "state"), "HOME="+top), procs: w.procs}
	_, err = other.fleet("init", "--join", file)
	return other, err
}

func (w *world) cooldowns() *cooldown.Store {
	return cooldown.New(durable.OS(), layout.Cooldowns(filepath.Join(w.top, "state", "superloop")))
}

// limitedElsewhere lets one machine meet limits, and looks when another one knows of them: at once, after a kill of its
// worker, and when they are lifted.
func limitedElsewhere(w *world, _, kills int) (string, error) {
	other, err := w.join("second")
	if err != nil {
		return "", err
	}
	first := w.procs["worker"]
	defer func() { w.procs["worker"] = first }()
	if err := other.begin("worker", 0); err != nil {
		return "", err
	}
	end := func() error {
		return errors.Join(w.procs["worker"].Process.Signal(syscall.SIGTERM), w.procs["worker"].Wait())
	}
	here, there := w.cooldowns(), other.cooldowns()
	limit := func(id string) (a agent.Account, err error) {
		a = agent.Account{Provider: "anthropic", ID: id}
		return a, here.Set(cooldown.Cooldown{Account: a, Class: class.Limit, Until: time.Now().Add(5 * time.Hour), Told: true})
	}
	knows := func(a agent.Account, want bool) func() bool {
		return func() bool { _, is, err := there.Get(a); return err == nil && is == want }
	}
	var took []time.Duration
	for i := range 20 {
		began := time.Now()
		a, err := limit(fmt.Sprint("a", i))
		if err == nil {
			err = await(time.Minute, "the other machine knows of the limit", knows(a, true))
		}
		if err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
	}
	for i := range kills {
		if err := other.kill("worker"); err != nil {
			return "", err
		}
		a, err := limit(fmt.Sprint("b", i))
		if err == nil {
			err = other.begin("worker", 0)
		}
		if err == nil {
			err = await(time.Minute, "a machine that was away knows of the limit", knows(a, true))
		}
		if err != nil {
			return "", err
		}
	}
	a := agent.Account{Provider: "anthropic", ID: "a0"}
	if err := there.Clear(a); err != nil {
		return "", err
	}
	if err := await(time.Minute, "the first machine hears that the limit is lifted", func() bool { _, is, err := here.Get(a); return err == nil && !is }); err != nil {
		return "", err
	}
	slices.Sort(took)
	return fmt.Sprintf("the other machine knew after p50 %d, at most %d ms; %d kills of its worker: told when it was back; lifted on one, lifted on both", took[10].Milliseconds(), took[19].Milliseconds(), kills), end()
}
