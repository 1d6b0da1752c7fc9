package fleetdrill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func killWorker(w *world, loops, kills int) (string, error) {
	all, err := w.all(loops, 2, 0.3, "")
	if err != nil {
		return "", err
	}
	var back []time.Duration
	for range kills {
		<-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond)
		if err := w.kill("worker"); err != nil {
			return "", err
		}
		began, mark := time.Now(), lines(all)
		if err := w.begin("worker", 0); err != nil {
			return "", err
		}
		if err := await(time.Minute, "work after a kill", func() bool {
			return lines(all) > mark || !slices.ContainsFunc(all, func(d *drilled) bool { return d.status() != "completed" })
		}); err != nil {
			return "", err
		}
		back = append(back, time.Since(began))
	}
	if err := finished(all, 2, 5*time.Minute); err != nil {
		return "", err
	}
	slices.Sort(back)
	return fmt.Sprintf("%d kills, %d loops: none lost, no attempt twice; first event after a kill p50 %.1f s, at most %.1f s", kills, loops, back[len(back)/2].Seconds(), back[len(back)-1].Seconds()), nil
}

// lines counts the events of all journals.
func lines(all []*drilled) (n int) {
	for _, d := range all {
		data, _ := os.ReadFile(filepath.Join(d.repo, ".superloop/loops", d.name, "events.jsonl"))
		n += bytes.Count(data, []byte("\n"))
	}
	return n
}

const approval = `, "approval": {"enabled": true, "require_on_completion": true}`

func killServer(w *world, loops, kills int) (string, error) {
	waiting, err := w.all(loops, 1, 0, approval)
	if err != nil {
		return "", err
	}
	if err := await(3*time.Minute, "all loops asked", func() bool {
		return !slices.ContainsFunc(waiting, func(d *drilled) bool { return d.status() != "awaiting_approval" })
	}); err != nil {
		return "", err
	}
	running, err := w.all(loops, 2, 0.3, "")
	if err != nil {
		return "", err
	}
	var back []time.Duration
	for range min(kills, 3) {
		<-time.After(time.Duration(500+rand.IntN(1500)) * time.Millisecond)
		if err := w.kill("dev"); err != nil {
			return "", err
		}
		began := time.Now()
		if err := w.begin("dev", w.port()); err != nil {
			return "", err
		}
		back = append(back, time.Since(began))
	}
	if err := finished(running, 2, 5*time.Minute); err != nil {
		return "", err
	}
	for _, d := range waiting {
		if _, err := w.fleet("approve", "--repo", d.repo, "--loop", d.name); err != nil {
			return "", err
		}
	}
	if err := finished(waiting, 1, 3*time.Minute); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d kills, %d loops waiting and %d running: none lost, no attempt twice; the server answers after %.1f s at most", len(back), loops, loops, slices.Max(back).Seconds()), nil
}

func killControl(w *world, loops, kills int) (string, error) {
	all, err := w.all(loops, 2, 0.2, "")
	if err != nil {
		return "", err
	}
	for range kills {
		<-time.After(time.Duration(rand.IntN(1000)) * time.Millisecond)
		if err := w.kill("control"); err != nil {
			return "", err
		}
		if err := w.begin("control", 0); err != nil {
			return "", err
		}
	}
	if err := finished(all, 2, 5*time.Minute); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d kills, %d loops: none lost, no attempt twice", kills, loops), nil
}

// noControl answers while no control worker runs (F6): who asks the workflow is refused, and what the machine was told counts later.
func noControl(w *world, _, _ int) (string, error) {
	d, err := w.asks()
	if err != nil {
		return "", err
	}
	if err := w.kill("control"); err != nil {
		return "", err
	}
	began := time.Now()
	out, err := w.fleet("approve", "--repo", d.repo, "--loop", d.name)
	refused := time.Since(began)
	if err == nil || !strings.Contains(out, "no control worker answers") || !strings.Contains(out, "superloop approve") {
		return "", fmt.Errorf("the workflow was asked without a control worker: %w\n%s", err, out)
	}
	if out, err := w.cmd(filepath.Join(w.bin, "superloop"), "approve", "--repo", d.repo, "--loop", d.name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("answering on the machine: %w\n%s", err, out)
	}
	if out, err := w.cmd(filepath.Join(w.bin, "superloop"), "approve", "--repo", d.repo, "--loop", d.name).CombinedOutput(); err == nil {
		return "", fmt.Errorf("the question was answered twice\n%s", out)
	}
	if s := d.status(); s != "awaiting_approval" {
		return "", fmt.Errorf("without a control worker the loop is %s", s)
	}
	began = time.Now()
	if err := w.begin("control", 0); err != nil {
		return "", err
	}
	if err := finished([]*drilled{d}, 1, time.Minute); err != nil {
		return "", err
	}
	return fmt.Sprintf("the workflow's verb is refused after %.1f s, the machine takes the answer, and the loop ends %.1f s after the start of a control worker", refused.Seconds(), time.Since(began).Seconds()), nil
}

// busy decides about loops while the only place of the worker is taken by a role.
func busy(w *world, _, _ int) (string, error) {
	d, err := w.asks()
	if err != nil {
		return "", err
	}
	if err := w.stop("worker"); err != nil {
		return "", err
	}
	w.worker = []string{"--slots", "1"}
	defer func() { w.worker = nil }()
	if err := w.begin("worker", 0); err != nil {
		return "", err
	}
	long, err := w.loop(1, 600, "")
	if err != nil {
		return "", err
	}
	if err := await(time.Minute, "the long role", func() bool { return long.count("role_start") == 1 }); err != nil {
		return "", err
	}
	began := time.Now()
	if _, err := w.fleet("approve", "--repo", d.repo, "--loop", d.name); err != nil {
		return "", err
	}
	took := time.Since(began)
	if _, err := w.fleet("cancel", "--repo", long.repo, "--loop", long.name); err != nil {
		return "", err
	}
	if err := await(time.Minute, "the loop with the long role is cancelled", func() bool { return long.status() == "cancelled" }); err != nil {
		return "", err
	}
	if err := finished([]*drilled{d}, 1, time.Minute); err != nil {
		return "", err
	}
	if err := w.stop("worker"); err != nil {
		return "", err
	}
	w.worker = nil
	return fmt.Sprintf("an answer takes %.1f s, and the loop with the role is cancelled", took.Seconds()), w.begin("worker", 0)
}

// lent has a worker with two places, whose loops use two accounts. A loop that waits for the account of another one keeps no place
// from the loop of the second account.
func lent(w *world, _, _ int) (string, error) {
	if err := w.stop("worker"); err != nil {
		return "", err
	}
	w.worker = []string{"--slots", "2", "--max-roles-per-account", "1"}
	defer func() { w.worker = nil }()
	if err := w.begin("worker", 0); err != nil {
		return "", err
	}
	long, err := w.loop(1, 600, "")
	if err != nil {
		return "", err
	}
	if err := await(time.Minute, "the long role", func() bool { return long.count("role_start") == 1 }); err != nil {
		return "", err
	}
	same := &drilled{w: w, name: long.name + "-same", repo: long.repo + "-same"}
	if err := same.start("", fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "recovery": {"enabled": false},
  "loops": [{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 2}]}`, filepath.Join(long.repo, "agent.sh"), same.name)); err != nil {
		return "", err
	}
	if err := await(time.Minute, "a loop that waits for a slot of the account", func() bool {
		said, err := w.fleet("accounts")
		return err == nil && strings.Contains(said, "waits, 0 before it")
	}); err != nil {
		return "", err
	}
	began := time.Now()
	other, err := w.loop(1, 0, "")
	if err != nil {
		return "", err
	}
	if err := finished([]*drilled{other}, 1, time.Minute); err != nil {
		return "", fmt.Errorf("the loop of another account: %w", err)
	}
	took := time.Since(began)
	if n := same.count("role_start"); n != 0 {
		return "", fmt.Errorf("%d roles have begun without a slot", n)
	}
	if _, err := w.fleet("cancel", "--repo", long.repo, "--loop", long.name); err != nil {
		return "", err
	}
	began = time.Now()
	if err := await(time.Minute, "the loop that has waited works", func() bool { return same.count("role_start") == 1 }); err != nil {
		return "", err
	}
	next := time.Since(began)
	if _, err := w.fleet("cancel", "--repo", same.repo, "--loop", same.name); err != nil {
		return "", err
	}
	if err := await(time.Minute, "it is cancelled", func() bool { return same.status() == "cancelled" }); err != nil {
		return "", err
	}
	if err := w.stop("worker"); err != nil {
		return "", err
	}
	w.worker = nil
	return fmt.Sprintf("a loop of another account is done %.1f s after its start, and the role that waited begins %.1f s after the slot is free", took.Seconds(), next.Seconds()), w.begin("worker", 0)
}

// asks starts a loop and waits until it asks whether it is done.
func (w *world) asks() (*drilled, error) {
	d, err := w.loop(1, 0, approval)
	if err != nil {
		return nil, err
	}
	return d, await(time.Minute, "the loop asks", func() bool { return d.status() == "awaiting_approval" })
}

func manyAnswers(w *world, _, _ int) (string, error) {
	d, err := w.asks()
	if err != nil {
		return "", err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	won, refused := 0, map[string]int{}
	for i := range 50 {
		all.Go(func() {
			verb := []string{"approve", "reject"}[i%2]
			_, err := w.fleet(verb, "--repo", d.repo, "--loop", d.name, "--by", fmt.Sprintf("p%d", i))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else {
				refused[err.Error()]++
			}
		})
	}
	all.Wait()
	if won != 1 {
		return "", fmt.Errorf("%d of 50 answers were taken", won)
	}
	return "one was taken, 49 were refused", nil
}

func forged(w *world, _, _ int) (string, error) {
	d, err := w.asks()
	if err != nil {
		return "", err
	}
	file := filepath.Join(w.top, "state/superloop/fleet/fleet.json")
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var f map[string]any
	if err := json.Unmarshal(data, &f); err != nil {
		return "", err
	}
	thief := filepath.Join(w.top, "thief")
	if _, err := (&world{bin: w.bin, env: append(w.env, "XDG_STATE_HOME="+thief)}).fleet("init", "--fleet", "drill"); err != nil {
		return "", err
	}
	own, err := os.ReadFile(filepath.Join(thief, "superloop/fleet/fleet.json"))
	if err != nil {
		return "", err
	}
	var stolen map[string]any
	if err := json.Unmarshal(own, &stolen); err != nil {
		return "", err
	}
	f["gateway"] = stolen["gateway"] // all that a member of the namespace can have, and a key of their own
	if data, err = json.Marshal(f); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(thief, "superloop/fleet/fleet.json"), data, 0o600); err != nil {
		return "", err
	}
	out, err := (&world{bin: w.bin, env: append(w.env, "XDG_STATE_HOME="+thief)}).fleet("approve", "--repo", d.repo, "--loop", d.name)
	if err == nil || !strings.Contains(out, "no gateway of this fleet has signed it") {
		return "", fmt.Errorf("it was answered with %q", out)
	}
	<-time.After(time.Second)
	if s := d.status(); s != "awaiting_approval" {
		return "", fmt.Errorf("the loop is %s", s)
	}
	return "refused, and the loop waits", nil
}

func approveTime(w *world, loops, _ int) (string, error) {
	var took []time.Duration
	var all []*drilled
	for range loops {
		d, err := w.asks()
		if err != nil {
			return "", err
		}
		all = append(all, d)
	}
	for _, d := range all {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		began := time.Now()
		mark := lines([]*drilled{d})
		c := exec.CommandContext(ctx, filepath.Join(w.bin, "superloop-fleet"), "approve", "--repo", d.repo, "--loop", d.name)
		c.Env = w.env
		if out, err := c.CombinedOutput(); err != nil {
			stop()
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		stop()
		if err := await(time.Minute, "the effect", func() bool { return lines([]*drilled{d}) > mark }); err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
	}
	if err := finished(all, 1, time.Minute); err != nil {
		return "", err
	}
	slices.Sort(took)
	return fmt.Sprintf("p50 %d, p95 %d ms of %d, with the start of the program that approves", took[len(took)/2].Milliseconds(), took[len(took)*95/100].Milliseconds(), len(took)), nil
}
