package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/superloop/superloop/loop/journal"
)

// gatedAgent fails once as implementer, tells a cost, and as reviewer waits for a
// line of the pipe named in $1.
const gatedAgent = `cat > /dev/null
case $SUPERLOOP_ROLE in
implementer)
	echo done > "$SUPERLOOP_LOOP_DIR/implementer.md"
	[ "$SUPERLOOP_ATTEMPT" -gt 1 ] || exit 7
	echo work >> work.txt ;;
reviewer)
	echo looked > "$SUPERLOOP_LOOP_DIR/review.md"
	read -r line < "$1"
	echo '<promise>DONE</promise>' ;;
esac
`

// served is a run that serves metrics.
type served struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	done chan error
}

// serve starts a run with metrics at a free port, and waits until it says where.
func (n *testEnv) serve(t *testing.T) *served {
	t.Helper()
	cmd := exec.Command(n.path("bin/superloop"), "run", "--loop", "l", "--metrics", "127.0.0.1:0")
	cmd.Dir, cmd.Env = n.path("repo"), n.env
	errs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, cmd: cmd, done: make(chan error, 1)}
	lines := bufio.NewScanner(errs)
	var said []string
	for s.url == "" && lines.Scan() {
		said = append(said, lines.Text())
		if url, ok := strings.CutPrefix(lines.Text(), "metrics: "); ok {
			s.url = url
		}
	}
	over := make(chan struct{})
	go func() {
		for lines.Scan() { // a full pipe would stop it
		}
		s.done <- cmd.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		select {
		case <-over:
		default:
			_ = cmd.Process.Kill() // a test that failed half way
			<-over
		}
	})
	if s.url == "" {
		t.Fatalf("it never said where its metrics are, but\n%s", strings.Join(said, "\n"))
	}
	return s
}

// scrape gives every counter and gauge.
func (s *served) scrape() map[string]float64 {
	s.t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %v", res.Status, err)
	}
	out := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, " "+l.GetName()+"="+l.GetValue())
			}
			slices.Sort(labels)
			out[name+strings.Join(labels, "")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return out
}

// reviewing waits until the loop's journal has so many starts of the reviewer.
func (n *testEnv) reviewing(starts int) {
	n.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	seen := 0
	if err := journal.Follow(ctx, n.path("repo/.superloop/loops/l/events.jsonl"), 0, func(ev journal.Event) error {
		if ev.Event == "role_start" && strings.Contains(string(ev.Fields), `"reviewer"`) {
			if seen++; seen == starts {
				return journal.ErrStop
			}
		}
		return nil
	}); err != nil {
		n.t.Fatalf("%d starts of the reviewer were seen: %v", seen, err)
	}
}

// TestMetricsOfARun: metrics are served while agents run; a supervisor that takes over
// from one that was killed tells the same; a port in use is told before anything
// begins, and the server ends with the run.
// Conforms: 003-r4-metrics
func TestMetricsOfARun(t *testing.T) {
	t.Parallel()
	n := newTestEnv(t, false)
	n.write("agent.sh", gatedAgent)
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"gated": {"command": ["sh", %q, %q]}},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": 3, "completion_promise": "DONE", "completion": {"allow_ungated": true},
    "roles": ["implementer", "reviewer"], "retry": {"attempts": 3, "backoff_seconds": 0}}]
}`, n.path("agent.sh"), n.path("gate")))
	if err := syscall.Mkfifo(n.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	gate, err := os.OpenFile(n.path("gate"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()

	first := n.serve(t)
	n.reviewing(1)
	before := first.scrape()
	for name, want := range map[string]float64{
		"superloop_role_runs_total loop=l outcome=exit role=implementer runner=gated": 1,
		"superloop_role_runs_total loop=l outcome=ok role=implementer runner=gated":   1,
		"superloop_cost_unknown_runs_total loop=l role=implementer runner=gated":      2,
		"superloop_iterations_total loop=l":                                           1,
		"superloop_loop_status loop=l status=running":                                 1,
		"superloop_loop_status loop=l status=completed":                               0,
		"superloop_journal_readable loop=l":                                           1,
	} {
		if got, ok := before[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	failures := 0.0
	for name, v := range before {
		if strings.HasPrefix(name, "superloop_role_failures_total") && strings.Contains(name, "kind=exit") && strings.Contains(name, "role=implementer") {
			failures += v
		}
	}
	if failures != 1 {
		t.Errorf("%v failures were detected in %v", failures, before)
	}
	if age := float64(time.Now().Unix()) - before["superloop_journal_last_event_timestamp_seconds loop=l"]; age < -2 || age > 600 {
		t.Errorf("the last event is %v s old", age)
	}
	addr := strings.TrimSuffix(strings.TrimPrefix(first.url, "http://"), "/metrics")
	if code, said := n.superloop(nil, "run", "--loop", "l", "--metrics", addr); code != exitConfig || !strings.Contains(said, "in use") || !strings.Contains(said, "hint: superloop run --metrics 127.0.0.1:0") {
		t.Errorf("with a port in use it ends with %d: %s", code, said)
	}
	if code, said := n.superloop(nil, "run", "--metrics", "0.0.0.0:0"); code != exitUsage || !strings.Contains(said, "only loopback addresses") {
		t.Errorf("at every address it ends with %d: %s", code, said)
	}

	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-first.done; err == nil {
		t.Error("what was killed ended well")
	}
	second := n.serve(t)
	n.reviewing(2)
	after := second.scrape()
	for name, was := range before {
		counter := strings.Contains(name, "_total") || strings.Contains(name, "_seconds") && !strings.Contains(name, "timestamp")
		if counter && (after[name] < was || after[name] != was && !strings.Contains(name, "role=reviewer") && !strings.Contains(name, "failure")) {
			t.Errorf("%s was %v, after the restart it is %v", name, was, after[name])
		}
	}
	if _, err := gate.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-second.done:
		if err != nil {
			t.Fatalf("the run ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the run does not end")
	}
	if res, err := http.Get(second.url); err == nil {
		res.Body.Close()
		t.Error("the metrics are served after the run")
	}
}
