package gate

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTestStatus(t *testing.T) {
	t.Parallel()
	ok := CommandResult{Command: "true", Duration: time.Second}
	for _, tt := range []struct {
		name   string
		in     []CommandResult
		status string
		code   int
		failed string
	}{
		{"nothing to run", nil, "skipped", 0, ""},
		{"all pass", []CommandResult{ok, ok}, "ok", 0, ""},
		{"last fails", []CommandResult{ok, {Command: "b", ExitCode: 3}}, "failed", 3, "b"},
		{"first fails, last passes", []CommandResult{{Command: "a", ExitCode: 2}, ok}, "failed", 2, "a"},
		{"two fail", []CommandResult{{Command: "a", ExitCode: 2}, {Command: "b", ExitCode: 7}}, "failed", 2, "a"},
		{"timed out", []CommandResult{{Command: "a", TimedOut: true}}, "failed", 124, "a"},
		{"timed out and killed", []CommandResult{{Command: "a", ExitCode: -1, TimedOut: true, Signal: "SIGKILL"}}, "failed", 124, "a"},
		{"signal", []CommandResult{{Command: "a", ExitCode: -1, Signal: "SIGSEGV"}}, "failed", 139, "a"},
		{"signal without a number", []CommandResult{{Command: "a", Signal: "SIGWEIRD"}}, "failed", 128, "a"},
		{"signal as Go prints it", []CommandResult{{Command: "a", Signal: "killed"}}, "failed", 137, "a"},
		{"not started", []CommandResult{{Command: "a", Error: "no such file"}}, "failed", 127, "a"},
		{"odd code", []CommandResult{{Command: "a", ExitCode: -1}}, "failed", 255, "a"},
	} {
		got := TestStatus(tt.in)
		if got.Status() != tt.status || got.ExitCode != tt.code || got.Failed != tt.failed || got.OK != (tt.status != "failed") {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
	equal(t, "skipped", string(TestStatus(nil).StatusJSON(noon)),
		"{\n  \"ok\": true,\n  \"skipped\": true,\n  \"generated_at\": \"2026-11-21T12:00:00Z\"\n}\n")
	res := TestStatus([]CommandResult{ok, {Command: "go test", ExitCode: 1},
		{Command: "slow", TimedOut: true, Signal: "SIGTERM", Duration: 2 * time.Second}, {Command: "gone", Error: "not\nfound"},
		{Command: "crash", Signal: "SIGKILL"}})
	m := decode(t, res.StatusJSON(noon))
	keys(t, m, "ok exit_code generated_at failed_command commands")
	if m["ok"] != false || m["exit_code"] != 1.0 || len(m["commands"].([]any)) != 5 {
		t.Errorf("got %v", m)
	}
	c := m["commands"].([]any)[2].(map[string]any)
	if c["exit_code"] != 124.0 || c["timed_out"] != true || c["duration_ms"] != 2000.0 || c["ok"] != false {
		t.Errorf("got %v", c)
	}
}

func TestTestStatusNeverFailsWithZero(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) CommandResult {
			return CommandResult{
				ExitCode: rapid.SampledFrom([]int{0, 0, 0, 1, 2, -1, 255}).Draw(t, "code"),
				Signal:   rapid.SampledFrom([]string{"", "", "SIGKILL", "odd"}).Draw(t, "signal"),
				TimedOut: rapid.IntRange(0, 5).Draw(t, "timed out") == 0,
				Error:    rapid.SampledFrom([]string{"", "", "x"}).Draw(t, "error"),
			}
		})
		list := rapid.SliceOfN(one, 1, 6).Draw(t, "commands")
		got := TestStatus(list)
		bad := false
		for _, c := range list {
			bad = bad || c.Failed()
			if c.Failed() == (c.Code() == 0) {
				t.Fatalf("%+v has code %d", c, c.Code())
			}
		}
		if got.OK == bad || got.OK != (got.ExitCode == 0) {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestValidation(t *testing.T) {
	t.Parallel()
	good, bad := &PreflightResult{OK: true}, &PreflightResult{Errors: []string{"missing_text:x"}}
	pass, fail := CommandResult{Command: "a"}, CommandResult{Command: "b", ExitCode: 1}
	for _, tt := range []struct {
		pre      *PreflightResult
		commands []CommandResult
		status   string
		failed   string
	}{
		{nil, nil, "skipped", ""},
		{good, nil, "ok", ""},
		{nil, []CommandResult{pass}, "ok", ""},
		{bad, []CommandResult{pass}, "failed", "preflight: missing_text:x"},
		{good, []CommandResult{pass, fail}, "failed", "command: b"},
		{&PreflightResult{}, nil, "failed", "preflight: failed"},
	} {
		got := Validation(tt.pre, tt.commands)
		if got.Status() != tt.status || strings.Join(got.Failed, ", ") != tt.failed || got.OK != (tt.status != "failed") {
			t.Errorf("%+v: got %+v", tt, got)
		}
	}
	m := decode(t, Validation(nil, []CommandResult{pass}).ResultsJSON("t", 2, noon))
	keys(t, m, "generated_at loop_id iteration ok status preflight smoke_tests automated_checklist agent_browser commands failed")
	if m["preflight"] != nil || m["smoke_tests"] != nil || m["iteration"] != 2.0 {
		t.Errorf("got %v", m)
	}
}

func TestStuck(t *testing.T) {
	t.Parallel()
	var s StuckState
	for i, step := range []struct {
		changed         []string
		streak, since   int
		triggered       bool
		reason, verdict string
	}{
		{nil, 1, 1, false, ReasonNoChange, "1/2"},
		{[]string{"a.go"}, 0, 0, false, "", "0/2"},
		{nil, 1, 3, false, ReasonNoChange, "1/2"},
		{nil, 2, 3, true, ReasonNoChange, "2/2"},
		{nil, 3, 3, true, ReasonNoChange, "3/2"},
		{[]string{"b"}, 0, 0, false, "", "0/2"},
	} {
		in := StuckState{RunID: "r", Iteration: i + 1, CodeSignature: "sig", Threshold: 2, UpdatedAt: noon}
		s = Stuck(s, in, step.changed)
		if s.Streak != step.streak || s.SinceIteration != step.since || s.Triggered() != step.triggered || s.Reason != step.reason ||
			stuckStatus(s.Streak, s.Threshold) != step.verdict {
			t.Errorf("iteration %d: got %+v", i+1, s)
		}
		again := Stuck(s, in, step.changed) // a crash, and the same question once more
		if again != s {
			t.Errorf("iteration %d, asked again: got %+v", i+1, again)
		}
	}
	v := Stuck(StuckState{Streak: 100}, StuckState{Iteration: 1}, nil)
	if v.Triggered() || stuckStatus(v.Streak, v.Threshold) != "n/a" {
		t.Errorf("no threshold: got %+v", v)
	}
	next := Stuck(StuckState{RunID: "old", Iteration: 1, Streak: 2, SinceIteration: 1}, StuckState{RunID: "new", Iteration: 1}, nil)
	equal(t, "same iteration of another run", next.Streak, 3)
}

func TestStuckFile(t *testing.T) {
	t.Parallel()
	s := Stuck(StuckState{}, StuckState{RunID: "r1", Iteration: 4, CodeSignature: "abc", Threshold: 3, UpdatedAt: noon}, nil)
	data := s.JSON()
	keys(t, decode(t, data), "code_signature test_signature streak threshold reason updated_at since_iteration run_id iteration")
	equal(t, "updated_at", decode(t, data)["updated_at"].(string), "2026-11-21T12:00:00Z")
	back, err := ParseStuck(data)
	if err != nil || back != s {
		t.Errorf("got %+v %v, want %+v", back, err, s)
	}
	old, err := ParseStuck([]byte(`{"code_signature":"x","test_signature":"e3b0","streak":2,"threshold":3,"reason":"same_test_failures","updated_at":"2026-01-02T03:04:05Z"}`))
	if err != nil || old.Streak != 2 {
		t.Errorf("the original's: %+v %v", old, err)
	}
	if s, err := ParseStuck(nil); err != nil || s != (StuckState{}) {
		t.Errorf("none: %+v %v", s, err)
	}
	if _, err := ParseStuck([]byte("{")); err == nil {
		t.Error("broken JSON is no error")
	}
}

func TestStuckReport(t *testing.T) {
	t.Parallel()
	many := make([]string, maxReported+5)
	for i := range many {
		many[i] = "dist/x"
	}
	report := string(StuckReport{
		LoopID: "t", State: StuckState{CodeSignature: "abc", Streak: 3, Threshold: 3, SinceIteration: 5, Iteration: 7, RunID: "r1"},
		Ignored: append([]string{"dist/new\nline.js"}, many...), Patterns: []string{"dist/**"}, Missing: []string{"tests=failed"},
		At: noon,
	}.Markdown())
	for _, want := range []string{"No progress in 3 iterations (threshold 3)", "from iteration 5 to iteration 7", "last change was made in iteration 4",
		"Signature of the tree: abc", "\n- \"dist/new\\nline.js\"\n", "- ... and 6 more\n", "- dist/**\n", "- tests=failed\n", "`superloop run --loop t`", "Run: r1"} {
		if !strings.Contains(report, want) {
			t.Errorf("%q is not in\n%s", want, report)
		}
	}
	report = string(StuckReport{LoopID: "t", State: StuckState{Streak: 1, Threshold: 1, SinceIteration: 1, Iteration: 1}, At: noon}.Markdown())
	for _, want := range []string{"1 iteration (", "Nothing was changed since the loop began", "is ignored\n\nNothing.\n", "- (empty)", "Not known."} {
		if !strings.Contains(report, want) {
			t.Errorf("%q is not in\n%s", want, report)
		}
	}
}
