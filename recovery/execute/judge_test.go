package execute

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/sandbox"
)

func TestTheStrictestPolicyCounts(t *testing.T) {
	t.Parallel()
	lists := policy(t, nil, "touch a")
	asks := policy(t, nil)
	denies := policy(t, func(s *recovery.Settings) { s.OnUnknown, s.RequireHuman = recovery.UnknownDeny, []string{} })
	waits := policy(t, func(s *recovery.Settings) { s.OnCooldown = recovery.CooldownWait }, "touch a")
	waitsLonger := policy(t, func(s *recovery.Settings) { s.OnCooldown, s.CooldownSeconds = recovery.CooldownWait, 600 }, "touch a")
	for _, c := range []struct {
		name     string
		in       []*recovery.Policy
		want     *recovery.Policy
		decision action.Decision
		wait     time.Duration
	}{
		{"one", []*recovery.Policy{lists}, lists, action.Auto, 0},
		{"human over auto", []*recovery.Policy{lists, asks}, asks, action.Human, 0},
		{"in the other order", []*recovery.Policy{asks, lists}, asks, action.Human, 0},
		{"deny over human", []*recovery.Policy{asks, denies}, denies, action.Deny, 0},
		{"deny over human, other order", []*recovery.Policy{denies, asks}, denies, action.Deny, 0},
		{"deny over auto", []*recovery.Policy{lists, denies}, denies, action.Deny, 0},
		{"the later one", []*recovery.Policy{waits, waitsLonger}, waitsLonger, action.Auto, 9 * time.Minute},
		{"the later one, other order", []*recovery.Policy{waitsLonger, waits}, waitsLonger, action.Auto, 9 * time.Minute},
		{"three", []*recovery.Policy{lists, denies, asks}, denies, action.Deny, 0},
		{"the first of equal ones", []*recovery.Policy{lists, policy(t, func(s *recovery.Settings) { s.MaxAuto = 9 }, "touch a")}, lists, action.Auto, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, c.in...)
			e.pin(true)
			b := recovery.Budget{}
			if c.wait > 0 {
				b.Last = start.Add(-time.Minute)
			}
			j := e.judge(command("touch a"), b)
			if j.Policy != c.want || j.PolicyDigest != c.want.Digest || j.Decision != c.decision {
				t.Errorf("%s by %s: %s", j.Decision, j.PolicyDigest, j.Reason)
			}
			want := time.Time{}
			if c.wait > 0 {
				want = start.Add(c.wait)
			}
			if !j.NotBefore.Equal(want) {
				t.Errorf("not before %s, want %s", j.NotBefore, want)
			}
		})
	}
}

func TestInvalidIsTheStrictest(t *testing.T) {
	t.Parallel()
	if !stricter(recovery.Verdict{Decision: action.Invalid}, recovery.Verdict{Decision: action.Deny}) || stricter(recovery.Verdict{Decision: action.Deny}, recovery.Verdict{Decision: action.Invalid}) {
		t.Error("deny is stricter than invalid")
	}
	if v := (recovery.Verdict{Decision: action.Auto}); stricter(v, v) {
		t.Error("a verdict is stricter than itself")
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	e := newEnv(t, policy(t, func(s *recovery.Settings) { s.MaxAuto = 2 }, "touch a"))
	e.pin(true)
	for _, c := range []struct {
		name    string
		command string
		budget  recovery.Budget
		want    action.Decision
		rule    string
	}{
		{"fresh", "touch a", recovery.Budget{}, action.Auto, recovery.RuleAutoApprove},
		{"one left", "touch a", recovery.Budget{Used: 1}, action.Auto, recovery.RuleAutoApprove},
		{"used up", "touch a", recovery.Budget{Used: 2}, action.Human, recovery.RuleBudget},
		{"too soon", "touch a", recovery.Budget{Used: 1, Last: start.Add(-59 * time.Second)}, action.Human, recovery.RuleCooldown},
		{"cooled down", "touch a", recovery.Budget{Used: 1, Last: start.Add(-time.Minute)}, action.Auto, recovery.RuleAutoApprove},
		{"refused twice", "touch b", recovery.Budget{Rejected: 2}, action.Deny, recovery.RuleRejected},
	} {
		if j := e.judge(command(c.command), c.budget); j.Decision != c.want || j.Rule != c.rule || !j.NotBefore.IsZero() {
			t.Errorf("%s: %s by %s: %s", c.name, j.Decision, j.Rule, j.Reason)
		}
	}
	if j := e.judge(command("touch a"), recovery.Budget{Last: start.Add(-20 * time.Second), Waits: true}); !j.NotBefore.Equal(start.Add(40 * time.Second)) {
		t.Errorf("not before %s", j.NotBefore)
	}
	e.wantSteps("pin pin") // the baseline, and who is at work; nothing else is looked at or written
}

func TestDirectories(t *testing.T) {
	t.Parallel()
	e := newEnv(t, policy(t, nil, "touch a"))
	e.put("sub/file", "x")
	e.put(".git/x", "x")
	e.pin(true)
	judge := func(dir string) Judgement {
		return e.judge(action.Draft{Command: "touch a", WorkingDir: dir}.Action(), recovery.Budget{})
	}
	j := judge("sub")
	want, err := sandbox.Resolve(e.Repo, "sub")
	if err != nil || j.Place != want || j.Decision != action.Auto {
		t.Errorf("%+v %s, want %+v (%v)", j.Place, j.Decision, want, err)
	}
	for dir, why := range map[string]string{"none": `the working directory "none" does not exist`, "sub/file": "is not a directory", "..": "leads out of the repository",
		".git": "lies in .git", "/": "is not in the repository"} {
		j := judge(dir)
		if j.Decision != action.Invalid || j.Rule != recovery.RuleWorkingDir || !strings.Contains(j.Reason, why) {
			t.Errorf("%s: %s by %s: %s", dir, j.Decision, j.Rule, j.Reason)
		}
		if j.Place != (sandbox.Place{}) || j.Inputs != "" || j.Diff != "" {
			t.Errorf("%s: %+v", dir, j)
		}
	}
	e.Repo = filepath.Join(e.Repo, "gone")
	if _, err := e.Judge(t.Context(), command("touch a"), recovery.Budget{}); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "opening the repository: ") {
		t.Errorf("without a repository: %v", err)
	}
	e = newEnv(t)
	if _, err := e.Judge(t.Context(), command("touch a"), recovery.Budget{}); err == nil || !strings.Contains(err.Error(), "there is no policy") {
		t.Errorf("without a policy: %v", err)
	}
}

// allows lets everything run that is confined.
func allows(s *recovery.Settings) {
	s.OnUnknown, s.RequireHuman = recovery.UnknownAllow, []string{}
}

func requires(s *recovery.Settings) { s.Sandbox.Required = true }

func TestWhatConfinesCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		change  func(*recovery.Settings)
		command string
		level   sandbox.Level
		loose   bool
		want    action.Decision
		rule    string
	}{
		{"nobody asks", nil, "touch a", sandbox.None, false, action.Auto, recovery.RuleAutoApprove},
		{"required and there", requires, "touch a", sandbox.Landlock, false, action.Auto, recovery.RuleAutoApprove},
		{"required and not there", requires, "touch a", sandbox.None, false, action.Human, recovery.RuleSandbox},
		{"required, and loose is accepted", requires, "touch a", sandbox.None, true, action.Human, recovery.RuleSandbox},
		{"allow, confined", allows, "touch b", sandbox.Landlock, false, action.Auto, recovery.RuleUnknown},
		{"allow, loose", allows, "touch b", sandbox.None, false, action.Human, recovery.RuleLoose},
		{"allow, loose is accepted", allows, "touch b", sandbox.None, true, action.Auto, recovery.RuleUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, policy(t, c.change, "touch a"))
			e.box.Level, e.AcceptLoose = c.level, c.loose
			e.pin(true)
			e.steps = nil
			for range 2 { // it is measured once
				if j := e.judge(command(c.command), recovery.Budget{}); j.Decision != c.want || j.Rule != c.rule {
					t.Errorf("%s by %s: %s", j.Decision, j.Rule, j.Reason)
				}
			}
			e.wantSteps("")
			if e.measured != 1 {
				t.Errorf("measured %d times", e.measured)
			}
		})
	}
	e := newEnv(t, policy(t, requires, "touch a"))
	e.boxErr = errors.New("no luck")
	if _, err := e.Judge(t.Context(), command("touch a"), recovery.Budget{}); !errors.Is(err, e.boxErr) || err.Error() != "finding out how commands can be confined: no luck" {
		t.Errorf("not measured: %v", err)
	}
	e.boxErr = nil
	e.pin(true)
	if j := e.judge(command("touch a"), recovery.Budget{}); j.Decision != action.Auto {
		t.Errorf("an error of measuring is remembered: %s", j.Reason)
	}
}

func TestInputs(t *testing.T) {
	t.Parallel()
	e := newEnv(t, policy(t, nil, "./fix.sh"))
	e.put("fix.sh", "#!/bin/sh\ntrue\n")
	e.pin(true)
	same := e.judge(command("./fix.sh"), recovery.Budget{})
	if same.Decision != action.Auto || same.Inputs == "" || same.Diff != "" {
		t.Fatalf("%+v", same)
	}
	e.put("fix.sh", "#!/bin/sh\nevil\n")
	j := e.judge(command("./fix.sh"), recovery.Budget{})
	if j.Decision != action.Human || j.Rule != recovery.RuleGuard || !strings.Contains(j.Reason, "fix.sh changed") || !strings.Contains(j.Diff, "-true\n+evil\n") || j.Inputs == same.Inputs || j.Inputs == "" {
		t.Errorf("%+v", j)
	}
	// A human is shown the difference whatever the verdict, and keeps the budget's
	// word.
	if j := e.judge(command("./fix.sh"), recovery.Budget{Rejected: 2}); j.Decision != action.Deny || j.Diff == "" {
		t.Errorf("%+v", j)
	}
	e.policies = []*recovery.Policy{policy(t, nil)}
	if j := e.judge(command("./fix.sh"), recovery.Budget{}); j.Decision != action.Human || j.Rule != recovery.RuleHuman || j.Diff == "" || j.Inputs == "" {
		t.Errorf("%+v", j)
	}
	// With the guard off nothing is read.
	e.policies = []*recovery.Policy{policy(t, func(s *recovery.Settings) { s.Guard = recovery.GuardOff }, "./fix.sh")}
	if j := e.judge(command("./fix.sh"), recovery.Budget{}); j.Decision != action.Auto || j.Diff != "" || j.Inputs != "" {
		t.Errorf("%+v", j)
	}
}

func TestInputsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	e := newEnv(t, policy(t, nil, "./fix.sh"))
	e.put("fix.sh", "#!/bin/sh\n")
	human := func(why string) {
		t.Helper()
		j := e.judge(command("./fix.sh"), recovery.Budget{})
		if j.Decision != action.Human || j.Rule != recovery.RuleGuard || !strings.Contains(j.Reason, "what it reads cannot be looked at: "+why) || j.Inputs != "" || j.Diff != "" {
			t.Errorf("%+v", j)
		}
	}
	human("nobody has said which files are trusted (reading the baseline")
	e.fail["baseline:rename"] = errors.New("no space")
	if err := e.Pin(t.Context(), e.lockFile(), true); err == nil || !strings.HasPrefix(err.Error(), "pinning what listed commands read: ") {
		t.Error(err)
	}
	human("noting which files are trusted: baseline:rename")
	// A baseline of before is not taken in place of one that could not be made.
	delete(e.fail, "baseline:rename")
	e.pin(true)
	if j := e.judge(command("./fix.sh"), recovery.Budget{}); j.Decision != action.Auto {
		t.Error(j.Reason)
	}
	e.fail["baseline:rename"] = errors.New("no space")
	if err := e.Pin(t.Context(), e.lockFile(), false); err == nil {
		t.Error("no error")
	}
	human("noting which files are trusted: baseline:rename")
	if err := os.WriteFile(filepath.Join(e.StateDir, "inputs", "trusted"), []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.pinErr = nil // the next process
	human("nobody has said which files are trusted (reading the baseline")
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	const inRepo, missing, absolute, behindCd, opaque, second = "mytool", "./none.sh", "/nowhere/tool", "cd sub && ./tool", "$x/y", "touch a && mytool"
	const outside, sets = "../../ext/tool", "X=1; >x; touch a"
	e := newEnv(t, policy(t, nil, inRepo, missing, absolute, behindCd, opaque, second, "loose-tool", "./tool", outside, sets))
	e.put("sub/tool", "#!/bin/sh\n")
	loose := t.TempDir()
	if err := os.WriteFile(filepath.Join(loose, "loose-tool"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(loose, "loose-tool"), 0o777); err != nil {
		t.Fatal(err)
	}
	// The entry leads into the repository by a link from outside.
	out := filepath.Join(t.TempDir(), "mytool")
	if err := os.Symlink(filepath.Join(e.Repo, "sub", "tool"), out); err != nil {
		t.Fatal(err)
	}
	e.Environ = append(e.Environ, "PATH="+filepath.Dir(out)+":"+loose+":"+os.Getenv("PATH"))
	e.pin(true)
	for text, why := range map[string]string{inRepo: "lies in the repository", second: "lies in the repository", absolute: "cannot be followed", "loose-tool": "can be changed by its group or by others",
		missing: "", behindCd: "", opaque: "", sets: ""} {
		j := e.judge(command(text), recovery.Budget{})
		if why == "" && j.Decision != action.Auto || why != "" && (j.Decision != action.Human || j.Rule != recovery.RuleGuard || !strings.Contains(j.Reason, why)) {
			t.Errorf("%s: %s by %s: %s", text, j.Decision, j.Rule, j.Reason)
		}
	}
	// An absolute directory, and one below.
	for _, dir := range []string{filepath.Join(e.Repo, "sub"), "sub"} {
		if j := e.judge(action.Draft{Command: "./tool", WorkingDir: dir}.Action(), recovery.Budget{}); j.Decision != action.Auto {
			t.Errorf("%s: %s", dir, j.Reason)
		}
	}
	// One that lies beside the repository, seen from a directory in it.
	e.put("../ext/tool", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(e.Repo, "../ext/tool"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(e.Repo, "sub"), "sub"} {
		if j := e.judge(action.Draft{Command: outside, WorkingDir: dir}.Action(), recovery.Budget{}); j.Decision != action.Human || !strings.Contains(j.Reason, "can be changed by its group or by others") {
			t.Errorf("%s: %s: %s", dir, j.Decision, j.Reason)
		}
	}
}

// TestNothingStaysOpen is not parallel: it counts the descriptors of the process.
func TestNothingStaysOpen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a finalizer would close them too
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(all)
	}
	e := newEnv(t, policy(t, nil, "./fix.sh"))
	e.put("fix.sh", "#!/bin/sh\n")
	e.pin(true)
	e.judge(command("./fix.sh"), recovery.Budget{})
	before := open()
	for range 3 {
		e.judge(command("./fix.sh"), recovery.Budget{})
	}
	if after := open(); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	at := sandbox.Place{Repo: "/r", Dir: "a", DirID: sandbox.FileID{Dev: 1, Ino: 2}}
	was := Basis{Place: at, PolicyDigest: "p", Inputs: "i"}
	other := was
	other.Place.DirID.Ino = 3
	for name, c := range map[string]struct {
		was, now Basis
		want     string
	}{
		"nothing":        {was, was, ""},
		"another inode":  {was, other, "the working directory is another one"},
		"no place known": {Basis{PolicyDigest: "p", Inputs: "i"}, other, ""},
		"gone":           {was, Basis{PolicyDigest: "p", Inputs: "i"}, "the working directory is another one"},
		"policy":         {was, Basis{at, "q", "i"}, "the policy has changed"},
		"inputs":         {was, Basis{at, "p", ""}, "what the command reads has changed"},
		"all":            {was, Basis{}, "the working directory is another one; the policy has changed; what the command reads has changed"},
	} {
		if got := strings.Join(c.was.Drift(c.now), "; "); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestVariable(t *testing.T) {
	t.Parallel()
	env := []string{"A=1", "B", "A=2", "AB=3", "C="}
	for name, want := range map[string]string{"A": "2", "AB": "3", "B": "", "C": "", "D": ""} {
		if got := variable(env, name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
