package cured

import (
	"fmt"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop/journal"
)

// of makes the events of a journal. A line is the run, the event and its fields.
func of(t testing.TB, lines string) *Journal {
	t.Helper()
	j := &Journal{}
	seq := int64(0)
	for l := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.SplitN(strings.TrimSpace(l), " ", 3)
		seq++
		if err := j.Add(journal.Event{Seq: seq, RunID: f[0], Event: f[1], Fields: []byte(f[2])}); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

func failed(run, signature string) string {
	return fmt.Sprintf(`%s failure_classified {"source":"test_command","command":"make test","exit_code":2,"signature":%q,"handler":"","evidence":["last","a.go:3: in the code","first"]}`, run, signature)
}

func ran(run string, n int, command, result string) string {
	lines := fmt.Sprintf("%s recovery_proposed {\"n\":%d,\"source\":\"tester\",\"category\":\"dependency\",\"command\":%q}\n", run, n, command) +
		fmt.Sprintf("%s recovery_executing {\"n\":%d,\"id\":\"x\",\"command\":%q,\"working_dir\":\".\"}\n", run, n, command)
	if result == "" {
		return lines + fmt.Sprintf("%s recovery_failed {\"n\":%d,\"id\":\"x\"}", run, n)
	}
	return lines + fmt.Sprintf("%s recovery_verified {\"n\":%d,\"id\":\"x\",\"command\":%q,\"result\":%q,\"why\":\"said\"}", run, n, command, result)
}

func TestFind(t *testing.T) {
	t.Parallel()
	j := func(lines ...string) string { return strings.Join(lines, "\n") }
	for name, tt := range map[string]struct {
		journal string
		seq     int64
		failure int64  // the seq of the failure, 0: none
		cure    string // "" if there is none
	}{
		"nothing":                        {`r loop_start {}`, 0, 0, ""},
		"no cure":                        {failed("r", "a"), 0, 1, ""},
		"a cure":                         {j(failed("r", "a"), ran("r", 1, "make deps", "verified")), 0, 1, "make deps"},
		"by the event of the cure":       {j(failed("r", "a"), ran("r", 1, "make deps", "verified"), failed("r", "b")), 3, 1, "make deps"},
		"no help":                        {j(failed("r", "a"), ran("r", 1, "true", "ineffective")), 0, 1, ""},
		"harm":                           {j(failed("r", "a"), ran("r", 1, "true", "harmful")), 0, 1, ""},
		"nobody knows":                   {j(failed("r", "a"), ran("r", 1, "true", "unknown")), 0, 1, ""},
		"it failed":                      {j(failed("r", "a"), ran("r", 1, "true", "")), 0, 1, ""},
		"the second helps":               {j(failed("r", "a"), ran("r", 1, "true", "ineffective"), failed("r", "a"), ran("r", 2, "make deps", "verified")), 1, 1, "make deps"},
		"the newest with a cure":         {j(failed("r", "a"), ran("r", 1, "make deps", "verified"), failed("r", "b")), 0, 1, "make deps"},
		"the same failure is back":       {j(failed("r", "a"), ran("r", 1, "make deps", "verified"), failed("r", "a")), 0, 5, ""},
		"back in a later iteration":      {j(failed("r", "a"), ran("r", 1, "make deps", "verified"), `r iteration_start {}`, failed("r", "a")), 6, 6, "make deps"},
		"another failure follows":        {j(failed("r", "a"), ran("r", 1, "make deps", "verified"), failed("r", "b")), 5, 5, ""},
		"a failure of another run":       {j(failed("q", "a"), ran("r", 1, "make deps", "verified")), 0, 1, ""},
		"numbers begin anew in each run": {j(failed("q", "a"), ran("q", 1, "true", "ineffective"), failed("r", "b"), ran("r", 1, "make deps", "verified")), 0, 5, "make deps"},
		"a failure of a recovery":        {`r failure_classified {"source":"recovery_command","command":"x"}`, 0, 0, ""},
		"no such event":                  {failed("r", "a"), 9, 0, ""},
	} {
		f := of(t, tt.journal).Find(tt.seq)
		if f == nil {
			if tt.failure != 0 {
				t.Errorf("%s: nothing is found", name)
			}
			continue
		}
		a, ok := f.Cure()
		if f.Seq != tt.failure || a.Command != tt.cure || ok != (tt.cure != "") {
			t.Errorf("%s: event %d, cured by %q; want %d, %q", name, f.Seq, a.Command, tt.failure, tt.cure)
		}
		if ok && (a.Dir != "." || a.Category != "dependency" || a.Source != "tester" || a.Seq == 0) {
			t.Errorf("%s: %+v", name, a)
		}
		if f.Lines() != "first\nlast" {
			t.Errorf("%s: %q", name, f.Lines())
		}
	}
}

func TestWhatWasTried(t *testing.T) {
	t.Parallel()
	f := of(t, strings.Join([]string{failed("r", "a"), ran("r", 1, "true", "ineffective"), ran("r", 2, "make x", "")}, "\n")).Find(0)
	if got := f.What(); got != "what ran against it did not help: true (said), make x (it did not succeed)" {
		t.Error(got)
	}
	if a := f.Tried("true"); a.Result != "ineffective" || a.N != 1 {
		t.Errorf("%+v", a)
	}
	if a := f.Tried("false"); a != (Attempt{}) {
		t.Errorf("%+v", a)
	}
	if got := of(t, failed("r", "a")).Find(0).What(); got != "no command ran against it" {
		t.Error(got)
	}
}

// FuzzEvents: whatever the fields of events are, Add takes them or says which event it cannot read.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"source":"test_command","command":"x","evidence":["a"]}`), []byte(`{"n":1,"command":"y","result":"verified"}`))
	f.Fuzz(func(t *testing.T, failure, recovery []byte) {
		j := &Journal{}
		for i, ev := range []string{"failure_classified", "recovery_proposed", "recovery_executing", "recovery_verified", "failure_classified"} {
			fields := recovery
			if ev == "failure_classified" {
				fields = failure
			}
			if err := j.Add(journal.Event{Seq: int64(i + 1), RunID: "r", Event: ev, Fields: fields}); err != nil && !strings.Contains(err.Error(), fmt.Sprintf("event %d (%s)", i+1, ev)) {
				t.Fatal(err)
			}
		}
		for seq := range int64(7) {
			if found := j.Find(seq); found != nil {
				found.Cure()
				found.What()
				found.Lines()
			}
		}
	})
}
