package fleetdrill

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

// TestLong drills loops whose histories go through many runs. Where it does not run in full, the server wants a new run after
// a few events already.
func TestLong(t *testing.T) {
	drills(t, testkit.Sample(0, 1, 1))
	w, err := newWorld(t, func(w *world, port int) error {
		return w.serve(port, fmt.Sprintf("limit.historyCount.suggestContinueAsNew=%d", testkit.Sample(0, 30, 4096)))
	})
	defer w.end()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct {
		name, what string
		run        func(w *world) (string, error)
	}{
		{"iterations", "a loop of many iterations, with this engine and with superloop run", manyIterations},
		{"answers", "many answers to one loop, one after the other, and then fifty at once", manyDecisions},
	} {
		t.Run(d.name, func(t *testing.T) {
			said, err := d.run(w)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s", d.what, said)
		})
	}
}

// serve starts Temporal's server for try-outs as superloop-fleet dev does, with more settings.
func (w *world) serve(port int, more ...string) error {
	argv := []string{"temporal", "server", "start-dev", "--ip", "127.0.0.1", "--port", fmt.Sprint(port), "--headless", "--log-level", "error", "--db-filename", filepath.Join(w.top, "temporal.db")}
	for _, set := range append([]string{"history.transferProcessorMaxPollRPS=2000", "history.timerProcessorMaxPollRPS=2000", "matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1"}, more...) {
		argv = append(argv, "--dynamic-config-value", set)
	}
	c := w.cmd(argv...)
	if err := c.Start(); err != nil {
		return err
	}
	w.procs["dev"] = c
	return await(time.Minute, "the server", func() bool {
		out, _ := w.fleet("doctor")
		return strings.Contains(out, "ok    the server answers")
	})
}

// small makes a loop with one role. It promises in each iteration from a number on. start says whether the fleet starts it.
func (w *world) small(promises, most int, more string, start bool) (*drilled, error) {
	w.n++
	d := &drilled{w: w, name: fmt.Sprintf("s%d", w.n)}
	d.repo = filepath.Join(w.top, "repos", d.name)
	agent := fmt.Sprintf("cat > /dev/null\necho \"it, $SUPERLOOP_ITERATION\" | tee work.txt > \"$SUPERLOOP_LOOP_DIR/review.md\"\n[ $SUPERLOOP_ITERATION -lt %d ] || echo '<promise>DONE</promise>'\n", promises)
	config := fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", "agent.sh"]}}, "recovery": {"enabled": false},
  "loops": [{"id": "l", "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "roles": ["reviewer"], "max_iterations": %d%s}]}`, most, more)
	for name, text := range map[string]string{"spec.md": "build it\n", "agent.sh": agent, ".superloop/config.json": config} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(d.repo, name)), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(d.repo, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "begin"}} {
		if out, err := w.cmd(append([]string{"git", "-C", d.repo}, args...)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("git %v: %w\n%s", args, err, out)
		}
	}
	d.name = "l"
	if !start {
		return d, nil
	}
	_, err := w.fleet("start", "--repo", d.repo, "--loop", d.name, "--beat-timeout", "5s")
	return d, err
}

// runs returns how many runs the workflow of a loop has had.
func (d *drilled) runs() (int, error) {
	out, err := d.w.fleet("show", "--repo", d.repo, "--loop", d.name)
	if err != nil {
		return 0, err
	}
	var v struct{ Runs int }
	return v.Runs, json.Unmarshal([]byte(out), &v)
}

// differs is what differs from one run of a loop to the next.
var differs = []struct{ re, as string }{
	{`"timestamp":"[^"]*"`, `"timestamp":""`}, {`\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{8}`, "RUN"}, {`\b[0-9a-f]{12,64}\b`, "HEX"}, {`\d{4}-\d\d-\d\dT[0-9:.]+Z?`, "TIME"},
	{`"(pid|start_time|\w*_ms|\w*_us|\w*bytes|offset)":\d+`, `"$1":0`}, {`/repos/s\d+`, "/repo"},
}

// events returns the journal without what differs.
func (d *drilled) events() ([]string, error) {
	out, err := d.w.cmd(filepath.Join(d.w.bin, "superloop"), "events", "--repo", d.repo, "--loop", d.name, "--json").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	text := string(out)
	for _, x := range differs {
		text = regexp.MustCompile(x.re).ReplaceAllString(text, x.as)
	}
	return strings.Split(strings.TrimSpace(text), "\n"), nil
}

func manyIterations(w *world) (string, error) {
	n, most := testkit.Sample(0, 30, 3000), testkit.Sample(0, 4, 4)
	began := time.Now()
	d, err := w.small(n, n+1, "", true)
	if err != nil {
		return "", err
	}
	if err := await(3*time.Hour, "the loop completes", func() bool { return d.status() == "completed" }); err != nil {
		return "", err
	}
	took := time.Since(began)
	began = time.Now()
	other, err := w.small(n, n+1, "", false)
	if err != nil {
		return "", err
	}
	if out, err := w.cmd(filepath.Join(w.bin, "superloop"), "run", "--repo", other.repo, "--loop", "l").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%.2000s", err, out)
	}
	local := time.Since(began)
	here, err := d.events()
	if err != nil {
		return "", err
	}
	there, err := other.events()
	if err != nil {
		return "", err
	}
	for i := range min(len(here), len(there)) {
		if here[i] != there[i] {
			return "", fmt.Errorf("event %d is\n%s\nand with superloop run\n%s", i+1, here[i], there[i])
		}
	}
	if len(here) != len(there) {
		return "", fmt.Errorf("%d events, and %d with superloop run", len(here), len(there))
	}
	runs, err := d.runs()
	if err != nil {
		return "", err
	}
	if runs <= most {
		return "", fmt.Errorf("the workflow has had %d runs", runs)
	}
	if err := w.forget("--repo", d.repo, "--loop", d.name); err != nil {
		return "", err
	}
	if after, err := d.events(); err != nil || !slices.Equal(after, here) {
		return "", fmt.Errorf("the server has forgotten the loop, and of its %d events %d are left: %w", len(here), len(after), err)
	}
	return fmt.Sprintf("%d iterations in %d runs of the workflow and %.0f s (superloop run: %.0f s); the %d events are the same, also after the server has forgotten the loop", n, runs, took.Seconds(), local.Seconds(), len(here)), nil
}

// forget removes a workflow from the server, as the end of its retention does. at are the arguments that name the loop.
func (w *world) forget(at ...string) error {
	said, err := w.fleet(append([]string{"show"}, at...)...)
	var v struct{ Workflow string }
	if err == nil {
		err = json.Unmarshal([]byte(said), &v)
	}
	if err != nil {
		return err
	}
	if out, err := w.cmd("temporal", "workflow", "delete", "--address", fmt.Sprint("127.0.0.1:", w.port()), "--workflow-id", v.Workflow).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return await(time.Minute, "the server forgets "+v.Workflow, func() bool {
		_, err := w.fleet(append([]string{"show"}, at...)...)
		return err != nil && strings.Contains(err.Error(), "the fleet has no "+v.Workflow)
	})
}

// manyDecisions answers one loop again and again, and at last from fifty processes at once.
func manyDecisions(w *world) (string, error) {
	n := testkit.Sample(0, 8, 2000)
	d, err := w.small(1, n+10, approval, true)
	if err != nil {
		return "", err
	}
	asks := func(iteration int) error {
		return await(time.Minute, fmt.Sprint("the question of iteration ", iteration), func() bool {
			s := d.read()
			return s.Status == "awaiting_approval" && s.Iteration == iteration
		})
	}
	began := time.Now()
	for i := range n {
		if err := asks(i + 1); err != nil {
			return "", err
		}
		if _, err := w.fleet("reject", "--repo", d.repo, "--loop", d.name, "--note", fmt.Sprint("not yet ", i)); err != nil {
			return "", fmt.Errorf("answer %d: %w", i+1, err)
		}
	}
	took := time.Since(began)
	if err := asks(n + 1); err != nil {
		return "", err
	}
	var all sync.WaitGroup
	won, lost := make(chan string, 50), make(chan error, 50)
	for i := range 50 {
		all.Go(func() {
			verb := []string{"approve", "reject"}[i%2]
			if _, err := w.fleet(verb, "--repo", d.repo, "--loop", d.name, "--by", fmt.Sprint("p", i)); err != nil {
				lost <- err
			} else {
				won <- verb
			}
		})
	}
	all.Wait()
	if len(won) == 0 || len(won)+len(lost) != 50 {
		return "", fmt.Errorf("%d of 50 answers were taken", len(won))
	}
	// Who comes when the loop asks again answers the next question.
	taken := len(won)
	if err := await(time.Minute, fmt.Sprint(taken, " answers are decisions"), func() bool { return d.count("approval_decided") == n+taken }); err != nil {
		return "", fmt.Errorf("%w: the journal has %d, with %d before", err, d.count("approval_decided"), n)
	}
	runs, err := d.runs()
	if err != nil {
		return "", err
	}
	if runs < 2 {
		return "", fmt.Errorf("the workflow has had one run")
	}
	if asked := d.count("approval_requested"); asked != n+taken && asked != n+taken+1 {
		return "", fmt.Errorf("%d questions, %d answers", asked, n+taken)
	}
	return fmt.Sprintf("%d answers one after the other in %.0f s and %d runs, none lost; of fifty at once %d were taken for as many questions", n, took.Seconds(), runs, taken), nil
}
