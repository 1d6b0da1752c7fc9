package fleetdrill

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

// killSteps kills the workers of four machines again and again in the middle of what they do, until each has been killed so
// often as it is to be, and then counts in git what the loops have done.
func killSteps(w *world, loops, _ int) (string, error) {
	loops = min(loops, 3)
	const machines = 4
	kills := testkit.Sample(4, 8, 1000) / machines
	var killed, iterations atomic.Int64
	var count sync.Mutex
	var fastest []time.Duration
	one := func(i int) error {
		other, err := w.join(fmt.Sprint("machine", i))
		if err != nil {
			return err
		}
		other.procs = nil
		if err := other.begin("worker", 0); err != nil {
			return err
		}
		defer other.end()
		all, err := other.all(loops, 10*kills, 0.2, "")
		if err != nil {
			return err
		}
		for range kills {
			<-time.After(time.Duration(rand.IntN(1200)) * time.Millisecond)
			if err := other.kill("worker"); err != nil {
				return err
			}
			killed.Add(1)
			began, mark := time.Now(), lines(all)
			if err := other.begin("worker", 0); err != nil {
				return err
			}
			if err := await(time.Minute, "work after a kill", func() bool { return lines(all) > mark }); err != nil {
				return err
			}
			count.Lock()
			fastest = append(fastest, time.Since(began))
			count.Unlock()
		}
		if err := await(5*time.Minute, "each loop is in its second iteration", func() bool { return !slices.ContainsFunc(all, func(d *drilled) bool { return d.read().Iteration < 2 }) }); err != nil {
			return err
		}
		for _, d := range all {
			if out, err := other.cmd(filepath.Join(w.bin, "superloop"), "cancel", "--repo", d.repo, "--loop", d.name).CombinedOutput(); err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
			if err := await(time.Minute, d.name+" is cancelled", func() bool { return d.read().Status == "cancelled" }); err != nil {
				return err
			}
			if err := d.whole(d.read().Iteration - 1); err != nil {
				return err
			}
			iterations.Add(int64(d.read().Iteration - 1))
		}
		return nil
	}
	errs := make([]error, machines)
	var group sync.WaitGroup
	for i := range machines {
		group.Go(func() { errs[i] = one(i) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("after %d kills: %w", killed.Load(), err)
	}
	slices.Sort(fastest)
	return fmt.Sprintf("%d kills on %d machines with %d loops each, %d iterations: none lost, no attempt twice; next event after p50 %.1f, p95 %.1f s, at most %.1f s", killed.Load(), machines, loops, iterations.Load(),
		fastest[len(fastest)/2].Seconds(), fastest[len(fastest)*95/100].Seconds(), fastest[len(fastest)-1].Seconds()), nil
}

// killDeciding kills the worker in the moment in which it is to carry out a decision.
func killDeciding(w *world, _, kills int) (string, error) {
	var took []time.Duration
	late := 0
	for range (kills + 1) / 2 {
		d, err := w.asks()
		if err != nil {
			return "", err
		}
		said, began := make(chan error, 1), time.Now()
		go func() {
			_, err := w.fleet("approve", "--repo", d.repo, "--loop", d.name)
			said <- err
		}()
		<-time.After(time.Duration(40+rand.IntN(160)) * time.Millisecond)
		if err := w.kill("worker"); err != nil {
			return "", err
		}
		if err := w.begin("worker", 0); err != nil {
			return "", err
		}
		if err := <-said; err != nil {
			return "", fmt.Errorf("whoever approved was told: %w", err)
		}
		if err := finished([]*drilled{d}, 1, time.Minute); err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
		if took[len(took)-1] > 4*time.Second {
			late++ // the server had given it to the worker that was killed
		}
		if n := d.count("approval_decided"); n != 1 {
			return "", fmt.Errorf("%s was decided %d times", d.name, n)
		}
	}
	slices.Sort(took)
	return fmt.Sprintf("%d kills: each was decided once; done after p50 %.1f s, at most %.1f s; %d had to wait for the heartbeat timeout of 5 s", len(took), took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), late), nil
}

// count counts an event in the journal.
func (d *drilled) count(event string) int {
	data, _ := os.ReadFile(filepath.Join(d.repo, ".superloop/loops", d.name, "events.jsonl"))
	return bytes.Count(data, []byte(`"event":"`+event+`"`))
}
