package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/loop"
)

// realCLIs is the PATH on which the real agent CLIs are found; a test that needs
// them is skipped without it. .ci/run installs them and sets it.
func realCLIs(t *testing.T, names ...string) string {
	t.Helper()
	path := os.Getenv("SUPERLOOP_TEST_CLIS")
	for _, name := range names {
		if _, err := proc.LookPath(name, []string{"PATH=" + path}); err != nil {
			t.Skipf("the real %s is not installed; set SUPERLOOP_TEST_CLIS to a PATH that has it (.ci/run does)", name)
		}
	}
	return path
}

// at gives the test the home of CLIs whose models s plays, and nothing of the operator who runs the test: no login, no
// key, no git identity.
func (n *testEnv) at(s *mockapi.Server, subscription bool, clis ...string) {
	t := n.t
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// codex makes no helpers of its sandbox below TMPDIR, and needs them where bubblewrap is installed.
	n.mkdir("tmp")
	n.env = []string{"PATH=" + os.Getenv("SUPERLOOP_TEST_CLIS") + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "TMPDIR=" + n.path("tmp"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid"}
	n.mkdir("bin")
	n.mkdir("repo")
	for _, cli := range clis {
		env, files, err := mockapi.Environment(cli, s.URL(), n.path("home"))
		if err != nil {
			t.Fatal(err)
		}
		if cli == "claude" && subscription {
			env = mockapi.Subscription(env)
		}
		n.env = append(n.env, env...)
		for name, text := range files {
			n.mkdir(filepath.Dir(filepath.Join("home", name)))
			n.write(filepath.Join("home", name), text)
		}
	}
	if err := os.Symlink(exe, n.path("bin/superloop")); err != nil {
		t.Fatal(err)
	}
}

// furnish makes a repository whose loop is worked by the real claude and the real
// codex, whose models are played by s.
func (n *testEnv) furnish(s *mockapi.Server, loopJSON string, subscription bool) {
	n.t.Helper()
	n.at(s, subscription, "claude", "codex")
	n.mkdir("repo/.superloop/specs")
	n.write("repo/.superloop/specs/l.md", "# A greeting\n\nhello.txt says hello.\n")
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {
    "claude": {"command": ["claude"], "args": ["-p"], "permissions": "workspace"},
    "codex": {"command": ["codex", "exec"], "args": ["-"], "permissions": "full"}
  },
  "prices": {"gpt-5.2-codex": {"input": 1.75, "output": 14, "cache_read": 0.175, "cache_write": 1.75}},
  "loops": [%s]
}`, loopJSON))
	n.git("init", "-q")
	n.git("add", "-A")
	n.git("commit", "-q", "-m", "start")
}

// play starts the models.
func (n *testEnv) play(script mockapi.Script) *mockapi.Server {
	n.t.Helper()
	s, err := mockapi.Start(script)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = s.Close() })
	return s
}

// team is a model that plays all four roles: it writes what the role is to leave
// by the CLI's own tools, and answers when the tool has done it.
func (n *testEnv) team(promiseIn int) mockapi.Script {
	dir := n.path("repo/.superloop/loops/l")
	reviews, turns := 0, map[string]int{}
	return func(c mockapi.Call) mockapi.Reply {
		if c.Side {
			return mockapi.Reply{Text: c.SmallTalk()}
		}
		role := ""
		for _, r := range []string{"planner", "implementer", "tester", "reviewer"} {
			if strings.Contains(string(c.Body), "# Role: "+r) {
				role = r
			}
		}
		if c.HasToolResult {
			if role != "reviewer" {
				return mockapi.Reply{Text: "The " + role + " is done."}
			}
			if reviews++; reviews < promiseIn {
				return mockapi.Reply{Text: "Not yet."}
			}
			return mockapi.Reply{Text: "All is there. <promise>GREETED</promise>"}
		}
		turns[role]++
		// A report that says the same again is none, and claude's tool overwrites no file that it has not read.
		write := func(path, text string) mockapi.Tool {
			if n := turns[role]; n > 1 {
				return mockapi.Tool{Shell: fmt.Sprintf("printf '%%s\\nagain, %d\\n' '%s' > %s", n, strings.TrimSpace(text), path)}
			}
			return mockapi.Tool{Write: &mockapi.File{Path: path, Content: text}}
		}
		switch role {
		case "planner":
			return mockapi.Reply{Thinking: "What is to be done?", Tools: []mockapi.Tool{write(dir+"/plan.md", "- [x] write hello.txt\n")}}
		case "implementer":
			return mockapi.Reply{Tools: []mockapi.Tool{write(n.path("repo/hello.txt"), "hello\n"), write(dir+"/implementer.md", "hello.txt is written\n")}}
		case "tester":
			return mockapi.Reply{Tools: []mockapi.Tool{{Shell: "grep -q hello " + n.path("repo/hello.txt") + " && echo it greets > " + dir + "/test-report.md"}}}
		case "reviewer":
			return mockapi.Reply{Tools: []mockapi.Tool{write(dir+"/review.md", "It greets.\n")}}
		}
		return mockapi.Reply{Status: 500, ErrorMessage: "no role in the prompt"}
	}
}

// roleEnds are the ends of the loop's roles.
func (n *testEnv) roleEnds() []loop.RoleEnded {
	n.t.Helper()
	var all []loop.RoleEnded
	for _, ev := range n.events() {
		f, err := loop.DecodeFact(ev.Event, ev.Fields)
		if err != nil {
			n.t.Fatal(err)
		}
		if end, ok := f.(loop.RoleEnded); ok {
			all = append(all, end)
		}
	}
	return all
}

func (n *testEnv) count(event string) int {
	k := 0
	for _, ev := range n.events() {
		if ev.Event == event {
			k++
		}
	}
	return k
}

// TestRealAgents runs a loop to completion with the real claude and the real
// codex mixed: their own tool calls write the plan, the code and the review, and
// what superloop counted is what the models told, to the token, in new sessions
// and in those that go on.
func TestRealAgents(t *testing.T) {
	realCLIs(t, "claude", "codex")
	t.Parallel()
	n := &testEnv{t: t, root: t.TempDir()}
	s := n.play(n.team(2))
	role := func(runner, model, sessions string) string {
		return fmt.Sprintf(`{"runner": %q, "model": %q, "session": %q, "timeout": "3m"}`, runner, model, sessions)
	}
	n.furnish(s, fmt.Sprintf(`{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": 3, "completion_promise": "GREETED",
	"max_cost_usd": 50, "tests": {"mode": "every", "commands": ["grep -q hello hello.txt"]},
	"roles": {"planner": %s, "implementer": %s, "tester": %s, "reviewer": %s}}`,
		role("claude", "claude-sonnet-4-5", "fresh"), role("codex", "gpt-5.2-codex", "fresh"),
		role("claude", "claude-sonnet-4-5", "resume"), role("codex", "gpt-5.2-codex", "resume")), false)
	code, out := n.superloop(nil, "run", "--loop", "l")
	if code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out, n.logs())
	}
	for path, want := range map[string]string{"hello.txt": "hello\n", ".superloop/loops/l/plan.md": "- [x] write hello.txt\n",
		".superloop/loops/l/implementer.md": "hello.txt is written\n", ".superloop/loops/l/test-report.md": "it greets\n", ".superloop/loops/l/review.md": "It greets.\n"} {
		data, err := os.ReadFile(n.path(filepath.Join("repo", path)))
		if err != nil || !strings.HasPrefix(string(data), want) {
			t.Errorf("%s is %q (%v)", path, data, err)
		}
	}
	n.checkMoney(s)
	n.noSecrets()
}

// checkMoney compares what superloop counted with what the models told.
func (n *testEnv) checkMoney(s *mockapi.Server) {
	n.t.Helper()
	told := map[mockapi.API]mockapi.Usage{}
	for _, api := range []mockapi.API{mockapi.Anthropic, mockapi.OpenAI} {
		var of []mockapi.Record
		for _, r := range s.Calls() {
			if r.API == api {
				of = append(of, r)
			}
		}
		told[api], _ = mockapi.Total(of)
	}
	seen := map[mockapi.API]mockapi.Usage{}
	var cost float64
	for _, r := range n.roleEnds() {
		api := map[string]mockapi.API{"claude": mockapi.Anthropic, "codex": mockapi.OpenAI}[r.Runner]
		if r.Usage == nil || r.CostUSD == nil {
			n.t.Errorf("%s of %s told neither tokens nor cost: %+v", r.Role, r.Runner, r)
			continue
		}
		u, add := seen[api], func(to *int64, from *int64) {
			if from != nil {
				*to += *from
			}
		}
		add(&u.Input, r.Usage.Input)
		add(&u.Output, r.Usage.Output)
		add(&u.CacheRead, r.Usage.CacheRead)
		add(&u.CacheWrite, r.Usage.CacheWrite)
		add(&u.Reasoning, r.Usage.Reasoning)
		seen[api] = u
		cost += *r.CostUSD
	}
	for api, want := range told {
		if seen[api] != want {
			n.t.Errorf("%s: counted %+v, told %+v", api, seen[api], want)
		}
	}
	a, o := told[mockapi.Anthropic], told[mockapi.OpenAI]
	// The list price of claude-sonnet-4-5, and the price in the configuration.
	want := (3*float64(a.Input) + 15*float64(a.Output) + 0.3*float64(a.CacheRead) + 3.75*float64(a.CacheWrite) +
		1.75*float64(o.Input+o.CacheWrite) + 14*float64(o.Output) + 0.175*float64(o.CacheRead)) / 1e6
	if math.Abs(cost-want) > 1e-6 {
		n.t.Errorf("cost $%.6f, want $%.6f", cost, want)
	}
}

// noSecrets looks for the key in everything that superloop wrote.
func (n *testEnv) noSecrets() {
	n.t.Helper()
	err := filepath.WalkDir(n.path("repo/.superloop"), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), mockapi.Key) {
			n.t.Errorf("%s holds the key", path)
		}
		return err
	})
	if err != nil {
		n.t.Error(err)
	}
}

// logs are what the agents printed, for a test that failed.
func (n *testEnv) logs() string {
	var all strings.Builder
	files, _ := filepath.Glob(n.path("repo/.superloop/loops/l/logs/*/*.log")) // the pattern is good
	for _, f := range files {
		data, _ := os.ReadFile(f)
		fmt.Fprintf(&all, "== %s\n%s\n", filepath.Base(f), data[max(0, len(data)-3000):])
	}
	return all.String()
}

const twoRoles = `{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": 2, "completion_promise": "GREETED", "completion": {"allow_ungated": true},
	"roles": {"implementer": {"runner": "claude", "model": "claude-sonnet-4-5"}, "reviewer": {"runner": "claude", "model": "claude-sonnet-4-5"}}}`

// TestRealSignals: SIGTERM while a real CLI runs a tool ends everything within
// five seconds and leaves no process; the next run completes the loop.
func TestRealSignals(t *testing.T) {
	realCLIs(t, "claude", "codex")
	t.Parallel()
	for _, cli := range []string{"claude", "codex"} {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			n := &testEnv{t: t, root: t.TempDir()}
			team, sleeps := n.team(1), true
			began := n.path("began")
			s := n.play(func(c mockapi.Call) mockapi.Reply {
				if sleeps && !c.Side {
					sleeps = false
					return mockapi.Reply{Tools: []mockapi.Tool{{Shell: "touch " + began + "; sleep 9876"}}}
				}
				return team(c)
			})
			n.furnish(s, strings.ReplaceAll(twoRoles, `"claude"`, fmt.Sprintf("%q", cli)), false)
			p := n.begin("run", "--loop", "l")
			waitForFile(t, began, time.Minute)
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = p.Wait() // it ends with 143
			if code := p.ProcessState.ExitCode(); code != 143 {
				t.Errorf("exit code %d\n%s", code, n.logs())
			}
			if left := proc.Sweep("SUPERLOOP_MARK=" + n.events()[0].RunID); len(left) > 0 {
				t.Errorf("processes %v were left", left)
			}
			if code, out := n.superloop(nil, "run", "--loop", "l"); code != 0 || n.count("iteration_start") != 1 {
				t.Fatalf("exit code %d\n%s\n%s", code, out, n.logs())
			}
		})
	}
}

// begin starts the program and does not wait for its end.
func (n *testEnv) begin(args ...string) *exec.Cmd {
	n.t.Helper()
	cmd := exec.Command(n.path("bin/superloop"), args...)
	cmd.Dir, cmd.Env = n.path("repo"), n.env
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	return cmd
}

func waitForFile(t *testing.T, path string, limit time.Duration) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s did not come within %s", filepath.Base(path), limit)
		}
	}
}
