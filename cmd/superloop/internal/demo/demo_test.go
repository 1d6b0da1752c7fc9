package demo

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
)

func made(t *testing.T, escalate bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	if err := Make(t.Context(), durable.OS(), Options{Dir: dir, Exe: `/opt/a "strange" superloop`, Escalate: escalate}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a command in the repository and gives what it printed, and its exit
// code.
func run(t *testing.T, dir string, argv ...string) (string, int) {
	t.Helper()
	out, err := proc.Tool{Dir: dir}.Run(t.Context(), argv...)
	var failed *proc.ToolError
	if errors.As(err, &failed) && failed.Code > 0 {
		return string(out) + failed.Stderr, failed.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

// TestTheFailureAndItsRemedy: the check fails for the reason that the tester
// gives, nothing but the remedy helps, and with it the check judges the code.
func TestTheFailureAndItsRemedy(t *testing.T) {
	t.Parallel()
	dir := made(t, false)
	if err := os.WriteFile(filepath.Join(dir, "greet.in"), []byte("Hello, {1}!\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := func(when string) {
		t.Helper()
		if out, code := run(t, dir, "bash", "-c", "sh check.sh"); code != 1 || !strings.Contains(out, Failure) {
			t.Fatalf("%s check.sh exits with %d and prints %s", when, code, out)
		}
	}
	broken("at first")
	if out, code := run(t, dir, "bash", "-c", "sh scripts/install.sh"); code != 0 || !strings.Contains(out, "engine is installed") {
		t.Fatalf("install.sh alone exits with %d and prints %s", code, out)
	}
	broken("after install.sh alone")
	if out, code := run(t, dir, "bash", "-c", Remedy); code != 0 || !strings.Contains(out, "engine 0.21.5 installed") {
		t.Fatalf("the remedy exits with %d and prints %s", code, out)
	}
	if out, code := run(t, dir, "bash", "-c", "sh check.sh"); code != 0 {
		t.Fatalf("after the remedy check.sh exits with %d and prints %s", code, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "greet.in"), []byte("Hallo, {1}!\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := run(t, dir, "bash", "-c", "sh check.sh"); code != 1 || !strings.Contains(out, "+Hallo, World!") {
		t.Fatalf("with a mistake in the code check.sh exits with %d and prints %s", code, out)
	}
	// What the remedy reads is committed, and nothing else lies about.
	if out, _ := run(t, dir, "git", "status", "--porcelain"); out != "?? .superloop/\n?? greet.in\n" {
		t.Errorf("git status: %s", out)
	}
	if out, _ := run(t, dir, "git", "log", "-p", "--format=%s", "--", "deps.txt"); !strings.Contains(out, "-engine 0.27.2\n+engine 0.21.5") {
		t.Errorf("the history is %s", out)
	}
}

// written is the recovery.json that the scenario writes.
func written(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if problems := schemas.Validate(schemas.Scenario, data); len(problems) > 0 {
		t.Fatal(problems)
	}
	var scenario struct {
		Turns []struct {
			Steps []struct {
				Write struct{ Path, Content string }
			}
		}
	}
	if err := json.Unmarshal(data, &scenario); err != nil {
		t.Fatal(err)
	}
	for _, turn := range scenario.Turns {
		for _, step := range turn.Steps {
			if strings.HasSuffix(step.Write.Path, "/recovery.json") {
				return step.Write.Content
			}
		}
	}
	t.Fatal("nobody writes recovery.json")
	return ""
}

// TestTheProposal: what the scripted tester writes is a valid proposal of the
// remedy for this failure, and the policy of each demo says of it what the demo
// tells.
func TestTheProposal(t *testing.T) {
	t.Parallel()
	for _, escalate := range []bool{false, true} {
		dir := made(t, escalate)
		text := written(t, filepath.Join(dir, ".superloop", "scenario.json"))
		p, problems := recovery.DecodeProposal([]byte(text), time.Minute)
		if len(problems) > 0 {
			t.Fatalf("the proposal: %v", problems)
		}
		if p.Recovery.Command != Remedy || len(p.Notes) > 0 {
			t.Errorf("it proposes %q, with the notes %q", p.Recovery.Command, p.Notes)
		}
		if !regexp.MustCompile(p.Diagnosis.ErrorPattern).MatchString(Failure) {
			t.Errorf("%q does not match the failure", p.Diagnosis.ErrorPattern)
		}
		path := filepath.Join(dir, ".superloop", "config.json")
		cfg, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		policy, bad := cfg.Policy(LoopID)
		if len(bad) > 0 {
			t.Fatal(bad)
		}
		v := recovery.Decide(policy, recovery.Command{Text: p.Recovery.Command, WorkingDir: p.Recovery.WorkingDir}, recovery.Facts{})
		want := map[bool]action.Decision{false: action.Auto, true: action.Human}[escalate]
		if v.Decision != want {
			t.Errorf("escalate %v: the verdict is %s: %s", escalate, v.Decision, v.Reason)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var shown struct {
			Runners map[string]struct{ Command []string }
		}
		if err := json.Unmarshal(raw, &shown); err != nil || shown.Runners["scripted"].Command[0] != `/opt/a "strange" superloop` {
			t.Errorf("the agent is %v (%v)", shown, err)
		}
		if strings.Contains(string(raw), `\u0026`) {
			t.Errorf("nobody can read\n%s", raw)
		}
	}
}
