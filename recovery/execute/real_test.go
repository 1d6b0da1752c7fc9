package execute

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
)

// realEnv is an environment whose sandbox is the real one.
func realEnv(t *testing.T, change func(*recovery.Settings), commands ...string) *testEnv {
	t.Helper()
	s, err := proc.Start(proc.Options{})
	if err != nil {
		t.Skipf("no processes can be started here: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	e := newEnv(t, policy(t, change, commands...))
	e.Sandbox, e.Marker = Spawned{Spawner: s}, "EXECUTE_TEST_MARK="+t.Name()
	return e
}

// TestInTheRealSandbox: a listed command deletes a file, prints a secret and tries
// to write elsewhere; undo brings the file back.
func TestInTheRealSandbox(t *testing.T) {
	t.Parallel()
	const text = "rm old; echo token hunter2-hunter2; env | grep -c '^API_TOKEN='; touch ../outside; exit 3"
	e := realEnv(t, nil, text)
	e.put("old", "content")
	e.commit()
	e.pin(true)
	box, err := e.Executor.Sandbox.Measure(t.Context())
	if err != nil {
		t.Skipf("nothing can be confined here: %v", err)
	}
	o := e.order(command(text))
	var log bytes.Buffer
	o.Output = &log
	out := e.execute(o)
	if out.End != Exited || out.Code != 3 || !strings.HasPrefix(out.Tail, "token <secret>\n0\n") || !strings.HasPrefix(log.String(), "token <secret>\n0\n") {
		t.Fatalf("%+v, the log has %q", out, log.String())
	}
	if _, err := os.Lstat(filepath.Join(e.Repo, "../outside")); box.Level.Meets(sandbox.Landlock) && (err == nil || out.Sandbox.Level != box.Level) {
		t.Errorf("it wrote outside at level %s", out.Sandbox.Level)
	}
	if _, err := e.Undo.Restore(t.Context(), out.Undo.ID, undo.Options{}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(e.Repo, "old")); err != nil || string(data) != "content" {
		t.Errorf("%q %v", data, err)
	}
	if got := e.learned(); len(got) != 1 || got[0].Failed != 1 {
		t.Errorf("%+v", got)
	}
	e.noTemps()
}

// TestMeasured: the policy that wants a sandbox gets its verdict from the real one.
func TestMeasured(t *testing.T) {
	t.Parallel()
	e := realEnv(t, requires, "touch a")
	e.pin(true)
	box, err := e.Executor.Sandbox.Measure(t.Context())
	if err != nil {
		t.Skipf("nothing can be confined here: %v", err)
	}
	want := action.Human
	if box.Level.Meets(sandbox.Landlock) {
		want = action.Auto
	}
	if j := e.judge(command("touch a"), recovery.Budget{}); j.Decision != want {
		t.Errorf("%s at level %s: %s", j.Decision, box.Level, j.Reason)
	}
}
