package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
)

// Of 40 uses of tools by the real codex each one is judged, what is refused does not happen, and the model is told why.
func TestRealPermissionsCodex(t *testing.T) {
	realCLIs(t, "codex")
	t.Parallel()
	n := judgesAll(t, "codex", 5)
	if !strings.Contains(n.said("implementer"), "superloop refused git push origin x7") {
		t.Error("the agent was not told why")
	}
	n.noSecrets()
}

// A codex that was killed with an open question asks anew in the next run. It is held until an operator approves, and told
// what the operator notes.
func TestRealPermissionsCodexHeld(t *testing.T) {
	realCLIs(t, "codex")
	t.Parallel()
	killedAndHeld(t, "codex")
}

func killedAndHeld(t *testing.T, cli string) {
	t.Helper()
	n := &testEnv{t: t, root: t.TempDir()}
	touch := func(name string) mockapi.Reply { return mockapi.Reply{Tools: []mockapi.Tool{shell("touch " + name)}} }
	n.askingOf(cli, `{"mode": "enforce", "wait": "2m"}`, touch("killed.txt"), touch("held.txt"), touch("no.txt"))
	p := n.begin("run", "--loop", "l")
	store, old := n.wanted()
	if err := p.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	p = n.begin("run", "--loop", "l")
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); <-time.After(20 * time.Millisecond) {
		if now, err := store.Load(); err == nil && now.Question.ID != old.Question.ID && now.State == escalation.Pending {
			break
		}
	}
	if _, err := store.Answer(t.Context(), escalation.AnswerRequest{Method: escalation.Approve, Digest: old.Digest, By: escalation.By{Channel: escalation.CLI, User: "a"}}); err == nil {
		t.Error("the question of a dead agent was answered")
	}
	_, rec := n.wanted()
	if q := rec.Question; q.Type != escalation.ToolPermission || q.Tool == nil || !strings.Contains(string(q.Tool.Input), "touch held.txt") || q.Command != nil && string(q.Command.Text) != "touch held.txt" {
		t.Errorf("%+v", rec.Question)
	}
	n.missing("repo/held.txt", "repo/killed.txt")
	if code, out := n.superloop(nil, "approve", "--loop", "l", "--yes", "--digest", rec.Digest); code != 0 {
		t.Errorf("%d %s", code, out)
	}
	waitForFile(t, n.path("repo/held.txt"), time.Minute)
	_, rec = n.wanted()
	if code, out := n.superloop(nil, "reject-recovery", "--loop", "l", "--digest", rec.Digest, "--note", "use yes.txt"); code != 0 {
		t.Errorf("%d %s", code, out)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, n.logs())
	}
	n.missing("repo/no.txt", "repo/killed.txt")
	if !strings.Contains(fmt.Sprint(n.told.Load()), "use yes.txt") {
		t.Errorf("the agent was not told why\n%s", n.logs())
	}
	if left := proc.Sweep("SUPERLOOP_MARK=" + n.events()[0].RunID); len(left) > 0 {
		t.Errorf("processes %v were left", left)
	}
}

// A codex that asks for the same thing again and again is ended. Where it is only observed, nothing changes.
func TestRealPermissionsCodexRefusedAndObserved(t *testing.T) {
	realCLIs(t, "codex")
	t.Parallel()
	refusedAndObserved(t, "codex")
}

func refusedAndObserved(t *testing.T, cli string) {
	t.Helper()
	same := mockapi.Reply{Tools: []mockapi.Tool{shell("touch evil")}}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		n := &testEnv{t: t, root: t.TempDir()}
		n.askingOf(cli, `{"mode": "enforce", "deny": ["touch *"]}`, same, same, same, same, same)
		if code, _ := n.superloop(nil, "run", "--loop", "l", "--exit-on-escalation"); code == 0 {
			t.Error("the loop completed")
		}
		ends := n.roleEnds()
		if len(ends) == 0 || ends[0].Class != "refused_permission" || ends[0].Cut != "refused" || ends[0].Permissions.Deny != 3 {
			t.Errorf("%+v\n%s", ends, n.logs())
		}
		n.missing("repo/evil")
	})
	t.Run("observed", func(t *testing.T) {
		t.Parallel()
		n := &testEnv{t: t, root: t.TempDir()}
		n.askingOf(cli, `{"mode": "observe", "deny": ["touch *"]}`, same, same, mockapi.Reply{Tools: []mockapi.Tool{shell("ls")}})
		if code, out := n.superloop(nil, "run", "--loop", "l"); code != 0 {
			t.Fatalf("exit code %d\n%s\n%s", code, out, n.logs())
		}
		n.present("repo/evil")
		asked := n.permissionEvents("permission_asked")
		if len(asked) != 2 || asked[0]["observed"] != true || asked[0]["verdict"] != "deny" || asked[1]["verdict"] != "human" {
			t.Errorf("%v", asked)
		}
	})
}
