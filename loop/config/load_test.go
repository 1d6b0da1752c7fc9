package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/schemas"
)

var update = flag.Bool("update", false, "write the expected messages anew")

// home is the repository that golden files stand for.
const home = "/repo/.superloop/config.json"

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func each(t *testing.T, pattern string, f func(t *testing.T, path string, data []byte)) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal(pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f(t, path, data)
		})
	}
}

func TestBadConfigs(t *testing.T) {
	t.Parallel()
	each(t, "testdata/bad/*.json", func(t *testing.T, path string, data []byte) {
		c, err := LoadBytes(home, data)
		bad, ok := errors.AsType[*Error](err)
		if !ok || c != nil {
			t.Fatalf("accepted: %+v, %v", c, err)
		}
		for _, p := range bad.Problems {
			if p.Line == 0 || p.Code == "" || p.Message == "" {
				t.Errorf("no place, code or message: %+v", p)
			}
		}
		golden(t, strings.TrimSuffix(path, ".json")+".txt", bad.Error()+"\n")
		text := strings.NewReplacer("secret_env", "", "the secret itself", "").Replace(bad.Error()) // what is said of secrets is none
		if strings.Contains(text, "secret") || strings.Contains(text, "SECRET") {
			t.Error("a secret is shown")
		}
	})
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	each(t, "testdata/warn/*.json", func(t *testing.T, path string, data []byte) {
		c, err := LoadBytes(home, data)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, p := range c.Warnings {
			b.WriteString(p.Code + " " + p.String() + "\n")
		}
		golden(t, strings.TrimSuffix(path, ".json")+".txt", b.String())
		if strings.Contains(b.String(), "secretword") {
			t.Error("a secret is shown")
		}
	})
}

// The config that the bash original wrote loads, and means what it meant.
// Conforms: 004-compat-loops
func TestOriginalInit(t *testing.T) {
	t.Parallel()
	c, err := Load("testdata/original/init.json")
	if err != nil {
		t.Fatal(err)
	}
	l, ok := c.Loop("initiation")
	if !ok {
		t.Fatal("no loop")
	}
	recovery := l.Recovery
	l.Recovery = nil
	want := Loop{
		ID: "initiation", SpecFile: ".superloop/specs/initiation.md", MaxIterations: 20, CompletionPromise: "SUPERLOOP_COMPLETE",
		Checklists: []string{}, Tests: Tests{Mode: TestsDisabled, Timeout: 30 * time.Minute},
		Validation: Validation{Mode: TestsEvery, Timeout: 10 * time.Minute},
		Completion: Completion{RequireChange: true, RequireReports: []string{"review"}, TestsBaseline: true},
		Evidence:   Evidence{Enabled: true, RequireOnCompletion: true, Artifacts: []string{}},
		Approval:   Approval{RequireOnCompletion: true}, ReviewerPacket: true,
		Stuck: Stuck{Enabled: true, Threshold: 5, TestsThreshold: 2, Action: "report_and_stop", Ignore: defaultIgnore()},
		Git:   Git{CommitStrategy: "never", MaxSubjectLength: 72},
		Retry: Retry{Attempts: 3, Backoff: 5 * time.Second},
		Roles: alone(
			Role{Name: "planner", Runner: "codex", Timeout: 300 * time.Second},
			Role{Name: "implementer", Runner: "codex", Timeout: 900 * time.Second},
			Role{Name: "tester", Runner: "codex", Timeout: 300 * time.Second},
			Role{Name: "reviewer", Runner: "codex", Timeout: 1200 * time.Second},
		),
		Respond: usualRespond(),
	}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("got  %+v\nwant %+v", l, want)
	}
	var r struct {
		AutoApprove []string `json:"auto_approve"`
		Cooldown    int      `json:"cooldown_seconds"`
	}
	if err := json.Unmarshal(recovery, &r); err != nil || len(r.AutoApprove) != 8 || r.Cooldown != 60 {
		t.Errorf("recovery: %s, %v", recovery, err)
	}
	if c.Recovery != nil || c.Webhooks != nil {
		t.Error("sections that are not there are not nil")
	}
	var named []string
	for _, w := range c.Warnings {
		if w.Code != schemas.CodeIgnoredKey {
			t.Errorf("an unexpected warning: %v", w)
		}
		named = append(named, strings.TrimPrefix(w.Pointer, "/loops/0/"))
	}
	if !slices.Equal(named, []string{"lifecycle", "git/commit_message/authoring", "git/commit_message/author_role", "git/commit_message/timeout_seconds", "delegation"}) {
		t.Errorf("warnings for %q", named)
	}
}

func TestOriginalSingleRunner(t *testing.T) {
	t.Parallel()
	c, err := Load("testdata/original/single-runner.json")
	if err != nil {
		t.Fatal(err)
	}
	r := c.Runners["default"]
	if len(c.Runners) != 1 || r.Name != "default" || len(r.FastArgs) != 6 || r.PromptMode != "stdin" {
		t.Errorf("runners: %+v", c.Runners)
	}
	l := c.Loops[0]
	wantRoles := alone(Role{Name: "reviewer", Runner: "default", Model: "gpt-5.2-codex", Thinking: "max"}, Role{Name: "planner", Runner: "default"})
	if !reflect.DeepEqual(l.Roles, wantRoles) {
		t.Errorf("roles: %+v", l.Roles)
	}
	if l.Stuck.Enabled || len(l.Stuck.Ignore) != 10 || l.Validation.Enabled || l.Validation.Preflight != nil {
		t.Errorf("stuck %+v, validation %+v", l.Stuck, l.Validation)
	}
	if !slices.Equal(l.Git.PreCommitCommands, []string{"npm run lint:fix"}) || l.Tests.Mode != TestsOnPromise {
		t.Errorf("git %+v, tests %+v", l.Git, l.Tests)
	}
	if len(c.Warnings) != 1 || c.Warnings[0].Code != CodeNoBound {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

func TestRolesAndTimes(t *testing.T) {
	t.Parallel()
	src := `{
	 "_comment": "comments stand anywhere", "$schema": "x",
	 "runners": {"//": "two", "a": {"command": "a 'b c' {repo}", "env": {"K": "v"}}, "b": {"command": ["b"], "prompt_mode": "arg"}},
	 "role_defaults": {"planner": {"runner": "a", "model": "m", "timeout": "7m", "inactivity": 9}, "tester": {"runner": "b"}, "implementer": {"runner": "b"}, "reviewer": {"runner": "b"}},
	 "loops": [
	  {"id": "x", "spec_file": "./docs/../spec.md", "max_iterations": 3.0, "max_wall_time": "8h", "completion_promise": " DONE ",
	   "tests": {"commands": ["t"], "timeout": 0}, "retry": {"attempts": 2e0, "backoff_seconds": "1h"},
	   "validation": {"enabled": true, "mode": "on_promise", "commands": ["v"], "timeout": 1.5, "preflight": {"entry": "index.html"}},
	   "git": {"commit_strategy": "per_iteration", "pre_commit_commands": ["f", "g"], "worktree": true},
	   "roles": {"reviewer": {"thinking": "low", "timeout": 0}, "planner": {"runner": "b", "inactivity": "30s"}, "tester": {}},
	   "timeouts": {"enabled": true, "default": 100, "reviewer": 50, "inactivity": 20}},
	  {"id": "y", "spec_file": "/repo/y.md", "max_iterations": 1, "completion_promise": "D", "roles": ["planner", "tester"]}
	 ]}`
	c, err := LoadBytes(home, []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
	if !slices.Equal(c.Runners["a"].Command, []string{"a", "b c", "{repo}"}) || len(c.Runners) != 2 {
		t.Errorf("runners: %+v", c.Runners)
	}
	x, y := c.Loops[0], c.Loops[1]
	want := alone(
		Role{Name: "planner", Runner: "b", Model: "m", Timeout: 100 * time.Second, Inactivity: 30 * time.Second},
		Role{Name: "tester", Runner: "b", Timeout: 100 * time.Second, Inactivity: 20 * time.Second},
		Role{Name: "reviewer", Runner: "b", Thinking: "low", Inactivity: 20 * time.Second},
	)
	if !reflect.DeepEqual(x.Roles, want) {
		t.Errorf("roles of x: %+v", x.Roles)
	}
	if want := alone(Role{Name: "planner", Runner: "a", Model: "m", Timeout: 7 * time.Minute, Inactivity: 9 * time.Second}, Role{Name: "tester", Runner: "b"}); !reflect.DeepEqual(y.Roles, want) {
		t.Errorf("roles of y: %+v", y.Roles)
	}
	if x.SpecFile != "spec.md" || y.SpecFile != "y.md" || x.MaxIterations != 3 || x.MaxWallTime != 8*time.Hour || x.CompletionPromise != "DONE" {
		t.Errorf("x: %+v", x)
	}
	if x.Tests.Mode != TestsEvery || x.Tests.Timeout != 0 || x.Retry != (Retry{2, 5 * time.Minute}) {
		t.Errorf("tests %+v, retry %+v", x.Tests, x.Retry)
	}
	if v := x.Validation; !v.Enabled || v.Mode != TestsOnPromise || v.Timeout != 1500*time.Millisecond || v.Preflight == nil || v.Preflight.WebRoot != "." {
		t.Errorf("validation %+v", v)
	}
	if !slices.Equal(x.Git.PreCommitCommands, []string{"f", "g"}) || !x.Git.Worktree {
		t.Errorf("git %+v", x.Git)
	}
	if y.Tests.Mode != TestsDisabled || y.Git.CommitStrategy != "never" || y.Recovery != nil {
		t.Errorf("y: %+v", y)
	}
	if c.Path != home || len(c.Digest) != 64 {
		t.Errorf("path %q, digest %q", c.Path, c.Digest)
	}
}

// What is kept raw is kept without comments and with plain integers.
func TestRawSections(t *testing.T) {
	t.Parallel()
	c, err := LoadBytes(home, []byte(`{"runners":{"x":{"command":"x"}},"loops":[],
	 "recovery": {"// why": "x", "cooldown_seconds": 30.0, "auto_approve": ["a  \u0062"]}, "webhooks": {"on_escalation": "https://h/x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(c.Recovery); got != `{"cooldown_seconds":30,"auto_approve":["a  \u0062"]}` {
		t.Errorf("recovery: %s", got)
	}
	if got := string(c.Webhooks); got != `{"on_escalation":"https://h/x"}` {
		t.Errorf("webhooks: %s", got)
	}
}

func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, code, says, hint string }{
		"missing":   {filepath.Join(dir, "none.json"), CodeNoFile, "superloop init", "superloop init"},
		"directory": {dir, CodeUnreadable, "is a directory", "superloop validate"},
		"pipe":      {pipe, CodeUnreadable, "not a regular file", "superloop validate"},
		"below":     {write("file", []byte("{}")) + "/config.json", CodeUnreadable, "not a directory", "superloop validate"},
		"large":     {write("large", bytes.Repeat([]byte(" "), 5<<20)), schemas.CodeTooLarge, "5.0 MiB", "superloop validate"},
		"empty":     {write("empty", nil), schemas.CodeEmpty, "superloop init --force", "superloop init --force"},
		"blank":     {write("blank", []byte(" \n\t")), schemas.CodeEmpty, "superloop init --force", "superloop init --force"},
		"mark":      {write("mark", []byte("\xef\xbb\xbf{}")), schemas.CodeEncoding, "byte order mark", "superloop validate"},
		"binary":    {write("binary", []byte("\x7fELF\x00")), schemas.CodeEncoding, "NUL", "superloop validate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(c.path)
			bad, ok := errors.AsType[*Error](err)
			if !ok || len(bad.Problems) != 1 {
				t.Fatalf("got %v", err)
			}
			if bad.Problems[0].Code != c.code || !strings.Contains(bad.Error(), c.says) || bad.Hint() != c.hint || !strings.HasPrefix(bad.Error(), c.path+":") {
				t.Errorf("%s: %v; hint %q", bad.Problems[0].Code, bad, bad.Hint())
			}
			if errors.Is(err, fs.ErrNotExist) != (name == "missing") {
				t.Errorf("is it missing? %v", err)
			}
		})
	}
}

func TestProblemsAsJSON(t *testing.T) {
	t.Parallel()
	_, err := LoadBytes("config.json", []byte("{\n \"loops\": [], \"runers\": {}}"))
	bad, _ := errors.AsType[*Error](err)
	if bad == nil || bad.Path != "config.json" || bad.Hint() != "superloop validate" {
		t.Fatalf("got %v", err)
	}
	out, err := json.Marshal(bad.Problems)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(out, &got); err != nil || len(got) != 2 {
		t.Fatalf("got %s, %v", out, err)
	}
	p := got[1]
	if p["pointer"] != "/runers" || p["line"] != 2.0 || p["column"] != 15.0 || p["near"] != "runners" || p["code"] != "unknown_key" {
		t.Errorf("got %v", p)
	}
}
