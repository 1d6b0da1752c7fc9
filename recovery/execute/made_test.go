package execute

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/sandbox"
)

// A listed install makes a lock file. It is no agent's, so the next listed command does not wait for it; and it goes
// when the install did not help.
func TestOwnLockFile(t *testing.T) {
	t.Parallel()
	const again = "rm -rf node_modules && bun install"
	e := newEnv(t, policy(t, nil, "npm install", again))
	e.put("package.json", `{"name":"x","dependencies":{"a":"1"}}`)
	e.commit()
	e.pin(true)
	lock := filepath.Join(e.Repo, "package-lock.json")
	e.run = func(context.Context, sandbox.Spec) (sandbox.Result, error) {
		e.put("package-lock.json", `{"packages":{"node_modules/a":{"resolved":"https://packages.example/a.tgz"}}}`)
		e.put("other.txt", "x")
		return sandbox.Result{Ended: proc.Exited}, nil
	}
	var notes []string
	e.Note = func(s string) { notes = append(notes, s) }
	want := func(d action.Decision) {
		t.Helper()
		if j := e.judge(command(again), recovery.Budget{}); j.Decision != d {
			t.Errorf("%s: %s (%s), want %s", again, j.Decision, j.Reason, d)
		}
	}
	if out := e.execute(e.order(command("npm install"))); !out.OK() {
		t.Fatalf("%+v", out)
	}
	want(action.Auto)
	e.Learn(t.Context(), learn.Outcome{Command: "npm ci", Result: learn.Ineffective, Signature: "s", Option: "o"}) // another one
	if _, err := os.Stat(lock); err != nil {
		t.Error(err)
	}
	e.Learn(t.Context(), learn.Outcome{Command: "npm install", Result: learn.Ineffective, Signature: "s", Option: "o"})
	if _, err := os.Stat(lock); err == nil || len(notes) != 1 || notes[0] != "taken back, since it did not help: package-lock.json" {
		t.Errorf("%v %q", err, notes)
	}
	if _, err := os.Stat(filepath.Join(e.Repo, "other.txt")); err != nil {
		t.Error("a file that nobody expected of the command is gone")
	}
	want(action.Auto)

	// One that somebody changes afterwards is not superloop's any more: it stays, and is a question.
	e.execute(e.order(command("npm install")))
	e.put("package-lock.json", `{"packages":{"node_modules/a":{"resolved":"https://elsewhere.example/a.tgz"}}}`)
	want(action.Human)
	e.Learn(t.Context(), learn.Outcome{Command: "npm install", Result: learn.Ineffective, Signature: "s", Option: "o"})
	if _, err := os.Stat(lock); err != nil || len(notes) != 1 {
		t.Errorf("%v %q", err, notes)
	}
	// One that was there before is not made by the command.
	e.execute(e.order(command("npm install")))
	want(action.Human)
	e.wantWarned()
}
