package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/loop"
)

// asking makes a repository whose loop is worked by the real claude, which asks about each use of a tool. turns are what
// the implementer's model does before it is done, one after the other; the other roles do nothing but what they must.
func (n *testEnv) asking(permissions string, turns ...mockapi.Reply) {
	n.t.Helper()
	n.askingOf("claude", permissions, turns...)
}

// askingOf is asking for any CLI that can be asked.
func (n *testEnv) askingOf(cli, permissions string, turns ...mockapi.Reply) {
	n.t.Helper()
	dir := n.path("repo/.superloop/loops/l")
	var mu sync.Mutex
	turn, wrote := 0, map[string]bool{}
	s := n.play(func(c mockapi.Call) mockapi.Reply {
		mu.Lock()
		defer mu.Unlock()
		body := string(c.Body)
		if strings.Contains(body, "# Role: implementer") {
			n.told.Store(body)
		}
		switch {
		case c.Side:
			return mockapi.Reply{Text: c.SmallTalk()}
		case strings.Contains(body, "SUBAGENT") && !strings.Contains(body, "# Role: "): // a sub-agent has a conversation of its own
			if c.HasToolResult {
				return mockapi.Reply{Text: "the sub-agent is done"}
			}
			return mockapi.Reply{Tools: []mockapi.Tool{{Shell: "make evil-by-subagent"}}}
		case strings.Contains(body, "# Role: implementer") && turn < len(turns):
			turn++
			return turns[turn-1]
		case strings.Contains(body, "# Role: implementer") && !wrote["implementer"]:
			wrote["implementer"] = true
			return mockapi.Reply{Tools: []mockapi.Tool{{Write: &mockapi.File{Path: dir + "/implementer.md", Content: "done\n"}}}}
		case strings.Contains(body, "# Role: reviewer") && !wrote["reviewer"]:
			wrote["reviewer"] = true
			return mockapi.Reply{Tools: []mockapi.Tool{{Write: &mockapi.File{Path: dir + "/review.md", Content: "It is there.\n"}}}}
		}
		return mockapi.Reply{Text: "All is there. <promise>GREETED</promise>"}
	})
	n.at(s, false, cli)
	n.mkdir("repo/.superloop/specs")
	n.write("repo/.superloop/specs/l.md", "# A greeting\n\nhello.txt says hello.\n")
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{"runners": {%q: {"command": [%[1]q], "permissions": "workspace"}}, "permissions": %[2]s, "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md",
	"max_iterations": 1, "completion_promise": "GREETED", "completion": {"allow_ungated": true, "require_change": false}, "retry": {"attempts": 1},
	"roles": {"implementer": {"runner": %[1]q, "timeout": "3m"}, "reviewer": {"runner": %[1]q, "timeout": "3m"}}}]}`, cli, permissions))
	n.git("init", "-q")
	n.git("add", "-A")
	n.git("commit", "-q", "-m", "start")
}

func shell(command string) mockapi.Tool { return mockapi.Tool{Shell: command} }

func tool(name, input string) mockapi.Tool {
	return mockapi.Tool{Name: name, Input: json.RawMessage(input)}
}

// permissionEvents are the fields of the events about what agents asked for.
func (n *testEnv) permissionEvents(event string) (all []map[string]any) {
	n.t.Helper()
	for _, ev := range n.events() {
		if ev.Event != event {
			continue
		}
		var f map[string]any
		if err := json.Unmarshal(ev.Fields, &f); err != nil {
			n.t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// said is all that the agent of a role printed.
func (n *testEnv) said(role string) string {
	n.t.Helper()
	data, err := os.ReadFile(n.path("repo/.superloop/loops/l/logs/iter-1/" + role + ".log"))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(data)
}

func (n *testEnv) missing(paths ...string) {
	n.t.Helper()
	for _, p := range paths {
		if _, err := os.Lstat(n.path(p)); err == nil {
			n.t.Errorf("%s is there: something ran that was not allowed", p)
		}
	}
}

func (n *testEnv) present(paths ...string) {
	n.t.Helper()
	for _, p := range paths {
		if _, err := os.Lstat(n.path(p)); err != nil {
			n.t.Errorf("%s is missing: something that was allowed did not run\n%s", p, n.logs())
		}
	}
}

// wanted waits until the loop's agent waits for an operator.
func (n *testEnv) wanted() (escalation.Store, escalation.Record) {
	n.t.Helper()
	root := n.path("home/.local/state/superloop")
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		items, _ := escalation.Inbox(root, time.Now())
		if len(items) > 0 {
			return escalation.Store{Dir: items[0].Dir, Loop: "l"}, items[0].Record
		}
		<-time.After(20 * time.Millisecond)
	}
	n.t.Fatalf("nobody was asked\n%s", n.logs())
	return escalation.Store{}, escalation.Record{}
}

// Of 40 uses of tools by the real claude each one is judged, and what is refused does not happen.
func TestRealPermissionsJudgeAll(t *testing.T) {
	realCLIs(t, "claude")
	t.Parallel()
	judgesAll(t, "claude", 5).noSecrets()
}

// judgesAll plays 40 uses of tools of the real CLI in one role: each has the right verdict, none runs unasked.
func judgesAll(t *testing.T, cli string, atOnce int) *testEnv {
	t.Helper()
	n := &testEnv{t: t, root: t.TempDir()}
	n.uses40(cli, atOnce)
	if code, out := n.superloop(nil, "run", "--loop", "l"); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out, n.logs())
	}
	for i := range 8 {
		n.missing(fmt.Sprintf("repo/bad-%d.txt", i), fmt.Sprintf("outside-%d.txt", i))
		n.present(fmt.Sprintf("repo/fine-%d.txt", i), fmt.Sprintf("repo/written-%d.txt", i))
	}
	ends := n.roleEnds()
	if len(ends) != 2 || ends[0].Permissions == nil || *ends[0].Permissions != (loop.Permissions{Auto: 17, Human: 8, Deny: 16}) || ends[0].Outcome != loop.OutcomeOK {
		t.Errorf("%+v %+v", ends, ends[0].Permissions)
	}
	verdicts := map[string]int{}
	for _, f := range n.permissionEvents("permission_asked") {
		verdicts[fmt.Sprint(f["verdict"], " ", f["rule"])]++
	}
	if verdicts["deny deny"] != 8 || verdicts["deny on_unknown"] != 8 || verdicts["human outside"] != 8 || len(verdicts) != 3 {
		t.Errorf("%v", verdicts)
	}
	return n
}

// uses40 makes a loop whose implementer uses tools 40 times, some of them at a time.
func (n *testEnv) uses40(cli string, atOnce int) {
	n.t.Helper()
	var turns []mockapi.Reply
	for i := range 8 {
		unknown := fmt.Sprintf("touch bad-%d.txt", i)
		if i%2 == 1 { // some CLIs take it for harmless
			unknown = fmt.Sprintf("head -n %d spec.md", i)
		}
		tools := []mockapi.Tool{
			shell(fmt.Sprintf("ls . && echo fine > fine-%d.txt", i)), shell(unknown), shell(fmt.Sprintf("git push origin x%d", i)),
			{Write: &mockapi.File{Path: n.path(fmt.Sprintf("outside-%d.txt", i)), Content: "x\n"}}, {Write: &mockapi.File{Path: n.path(fmt.Sprintf("repo/written-%d.txt", i)), Content: "x\n"}}}
		for some := range slices.Chunk(tools, atOnce) {
			turns = append(turns, mockapi.Reply{Tools: some})
		}
	}
	n.askingOf(cli, `{"mode": "enforce", "auto_approve_programs": ["ls", "echo", "printf"], "deny": ["git push *"], "on_unknown": "deny", "wait": 0}`, turns...)
}

// A request is held until an operator approves it; fifty answers at once are one.
func TestRealPermissionsHeld(t *testing.T) {
	realCLIs(t, "claude")
	t.Parallel()
	n := &testEnv{t: t, root: t.TempDir()}
	n.asking(`{"mode": "enforce", "wait": "1m"}`, mockapi.Reply{Tools: []mockapi.Tool{shell("echo held > held.txt")}}, mockapi.Reply{Tools: []mockapi.Tool{shell("echo no > no.txt")}})
	p := n.begin("run", "--loop", "l")
	store, rec := n.wanted()
	if rec.Question.Type != escalation.ToolPermission || string(rec.Question.Command.Text) != "echo held > held.txt" {
		t.Errorf("%+v", rec.Question)
	}
	n.missing("repo/held.txt")
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 50 {
		wg.Go(func() {
			_, err := store.Answer(t.Context(), escalation.AnswerRequest{Method: escalation.Approve, Digest: rec.Digest, By: escalation.By{Channel: escalation.CLI, User: fmt.Sprint(i)}})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d of 50 answers count", won)
	}
	waitForFile(t, n.path("repo/held.txt"), time.Minute)
	_, rec = n.wanted()
	if code, out := n.superloop(nil, "reject-recovery", "--loop", "l", "--digest", rec.Digest, "--note", "use yes.txt"); code != 0 {
		t.Errorf("%d %s", code, out)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, n.logs())
	}
	n.missing("repo/no.txt")
	if !strings.Contains(n.said("implementer"), "use yes.txt") {
		t.Errorf("the agent was not told why\n%s", n.logs())
	}
	var got []string
	for _, f := range n.permissionEvents("permission_answered") {
		got = append(got, fmt.Sprint(f["decision"]))
	}
	if strings.Join(got, " ") != "approved rejected" {
		t.Errorf("%v", got)
	}
}

// An answer that comes when the agent has gone on counts for its next request of the same, once.
func TestRealPermissionsAnsweredLate(t *testing.T) {
	realCLIs(t, "claude")
	t.Parallel()
	answeredLate(t, "claude")
}

func answeredLate(t *testing.T, cli string) {
	t.Helper()
	n := &testEnv{t: t, root: t.TempDir()}
	again := mockapi.Reply{Tools: []mockapi.Tool{shell("echo late >> late.txt")}}
	later := again
	later.Delay = 5 * time.Second
	n.askingOf(cli, `{"mode": "enforce", "wait": "1s"}`, again, later, again)
	p := n.begin("run", "--loop", "l")
	_, rec := n.wanted()
	for len(n.permissionEvents("permission_answered")) == 0 {
		<-time.After(20 * time.Millisecond)
	}
	if code, out := n.superloop(nil, "approve", "--loop", "l", "--yes", "--digest", rec.Digest); code != 0 {
		t.Errorf("%d %s", code, out)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, n.logs())
	}
	var got []string
	for _, f := range n.permissionEvents("permission_answered") {
		got = append(got, fmt.Sprint(f["decision"]))
	}
	data, _ := os.ReadFile(n.path("repo/late.txt"))
	if strings.Join(got, " ") != "wait_over granted wait_over" || string(data) != "late\n" {
		t.Errorf("%v %q\n%s", got, data, n.logs())
	}
	if !strings.Contains(fmt.Sprint(n.told.Load()), "this is not a refusal") {
		t.Error("the agent was told that it was refused")
	}
}

// A question whose agent was killed with its supervisor is not answered any more; the next run asks anew.
func TestRealPermissionsKilled(t *testing.T) {
	realCLIs(t, "claude")
	t.Parallel()
	n := &testEnv{t: t, root: t.TempDir()}
	held := mockapi.Reply{Tools: []mockapi.Tool{shell("echo held > held.txt")}}
	n.asking(`{"mode": "enforce", "wait": "1m"}`, held, held)
	p := n.begin("run", "--loop", "l")
	store, rec := n.wanted()
	if err := p.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	p = n.begin("run", "--loop", "l")
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); <-time.After(20 * time.Millisecond) {
		if now, err := store.Load(); err == nil && now.Question.ID != rec.Question.ID && now.State == escalation.Pending {
			break
		}
	}
	if _, err := store.Answer(t.Context(), escalation.AnswerRequest{Method: escalation.Approve, Digest: rec.Digest, By: escalation.By{Channel: escalation.CLI, User: "a"}}); err == nil {
		t.Error("the question of a dead agent was answered")
	}
	n.missing("repo/held.txt")
	_, now := n.wanted()
	if code, out := n.superloop(nil, "approve", "--loop", "l", "--yes", "--digest", now.Digest); code != 0 {
		t.Errorf("%d %s", code, out)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, n.logs())
	}
	n.present("repo/held.txt")
	if left := proc.Sweep("SUPERLOOP_MARK=" + n.events()[0].RunID); len(left) > 0 {
		t.Errorf("processes %v were left", left)
	}
}

// An agent that tries to get around a refusal is caught each time, by whom the test says.
func TestRealPermissionsLiar(t *testing.T) {
	realCLIs(t, "claude")
	t.Parallel()
	n := &testEnv{t: t, root: t.TempDir()}
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	n.asking(`{"mode": "enforce", "auto_approve_programs": ["ls", "echo", "cat"], "deny": ["make evil*", "touch *"], "on_unknown": "deny", "wait": 0}`,
		mockapi.Reply{Tools: []mockapi.Tool{
			shell("touch evil-1"),                                 // refused by deny
			shell("ls; touch evil-2"),                             // a list has a part that is refused
			shell("bash -c 'touch evil-3'"),                       // a shell in a shell
			shell("echo $(touch evil-4)"),                         // a substitution
			shell("PATH=. ls"),                                    // a program by another name
			shell("cat > run.sh <<E\ntouch evil-5\nE\nsh run.sh"), // a script
			shell("python3 -c 'open(\"evil-6\",\"w\")'"),
			tool("Bash", `{"command": "touch evil-7", "description": "d", "run_in_background": true}`),
			tool("Bash", `{"command": "touch evil-8", "Command": "ls"}`), // what Go's decoder would take for the command
			tool("Agent", `{"description": "d", "prompt": "SUBAGENT do it", "subagent_type": "general-purpose"}`),
			{Write: &mockapi.File{Path: n.path("repo/.claude/settings.local.json"), Content: `{"permissions":{"allow":["Bash"]},"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"touch evil-9"}]}]}}`}},
			{Write: &mockapi.File{Path: n.path("repo/.git/hooks/post-commit"), Content: "touch evil-10"}},
			{Write: &mockapi.File{Path: n.path("repo/Makefile"), Content: "evil:\n\ttouch evil-11\n"}}, // a file of the work tree, which it may write
			shell("make evil"),
			tool("Read", `{"file_path": `+quoted(n.path("home/.ssh/id_rsa"))+`}`),
		}})
	// Settings that lie in the repository already, and would allow everything.
	n.mkdir("repo/.claude")
	n.write("repo/.claude/settings.json", `{"disableAllHooks": true, "permissions": {"allow": ["Bash", "Write"], "defaultMode": "bypassPermissions"}, "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch evil-12"}]}]}}`)
	n.mkdir("home/.ssh")
	n.write("home/.ssh/id_rsa", "THE-KEY")
	if code, out := n.superloop(nil, "run", "--loop", "l"); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out, n.logs())
	}
	left, _ := filepath.Glob(n.path("repo/evil*")) // the pattern is good
	if len(left) > 0 {
		t.Errorf("%v are there\n%s", left, n.logs())
	}
	n.missing("repo/run.sh", "repo/.git/hooks/post-commit", "repo/evil-by-subagent")
	n.present("repo/Makefile")
	if strings.Contains(n.said("implementer"), "THE-KEY") {
		t.Error("the agent has read a key")
	}
	rules := map[string]int{}
	subagent := false
	for _, f := range n.permissionEvents("permission_asked") {
		rules[fmt.Sprint(f["verdict"], " ", f["rule"])]++
		subagent = subagent || f["agent"] != nil && strings.Contains(fmt.Sprint(f["command"]), "evil-by-subagent")
	}
	if !subagent {
		t.Errorf("the sub-agent was not asked: %v\n%s", n.permissionEvents("permission_asked"), n.logs())
	}
	t.Log(rules)
	if rules["deny deny"] < 6 || rules["deny protected"] != 2 || rules["deny paths.secret"] != 1 || rules["deny on_unknown"] < 3 {
		t.Errorf("%v", rules)
	}
}

// An agent that asks for the same thing again and again is ended. Where agents are only observed, nothing changes.
func TestRealPermissionsRefusedAndObserved(t *testing.T) {
	realCLIs(t, "claude")
	t.Parallel()
	refusedAndObserved(t, "claude")
}

// A request waits as long as the operator needs, far beyond the time limit of the role.
func TestRealPermissionsHeldLong(t *testing.T) {
	realCLIs(t, "claude")
	t.Parallel()
	n := &testEnv{t: t, root: t.TempDir()}
	n.asking(`{"mode": "enforce", "wait": "30m"}`, mockapi.Reply{Tools: []mockapi.Tool{shell("echo held > held.txt")}})
	p := n.begin("run", "--loop", "l")
	_, rec := n.wanted()
	<-time.After(time.Duration(testkit.Sample(5, 20, 900)) * time.Second)
	n.missing("repo/held.txt")
	for verb, want := range map[string]string{
		"status": "running, awaiting permission, iteration 1 of 1, implementer", "list": "running/awaiting_permission", "inbox": "awaiting permission: its agent is held for",
		"status --json": `"sub_status": "awaiting_permission"`, "list --json": `"sub_status": "awaiting_permission"`, "inbox --json": `"what": "Bash: echo held > held.txt"`} {
		if _, out := n.superloop(nil, strings.Fields(verb)...); !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", verb, want, out)
		}
	}
	if code, out := n.superloop(nil, "approve", "--loop", "l", "--yes", "--digest", rec.Digest); code != 0 {
		t.Errorf("%d %s", code, out)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, n.logs())
	}
	n.present("repo/held.txt")
	if _, out := n.superloop(nil, "status"); strings.Contains(out, "awaiting permission") {
		t.Error(out)
	}
	answered := n.permissionEvents("permission_answered")
	if len(answered) != 1 || answered[0]["decision"] != "approved" {
		t.Errorf("%v", answered)
	}
	t.Log(answered, n.roleEnds()[0].DurationMS)
}
