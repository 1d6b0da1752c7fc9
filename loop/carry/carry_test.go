package carry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/host"
)

// remote is a bare repository with the loop l, which a clone has offered.
type remote struct {
	testing.TB
	top   string
	claim host.Claim
}

func (r *remote) git(args ...string) string {
	r.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e@example.com", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func put(t testing.TB, path, text string, perm os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), perm)); err != nil {
		t.Fatal(err)
	}
}

func newRemote(t testing.TB) *remote {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &remote{TB: t, top: top, claim: host.Claim{Workflow: "w", Remote: filepath.Join(top, "remote.git"), Loop: "l", Grant: "g", By: "ann", Machine: "p", Keys: [][]byte{[]byte("new"), []byte("old")}}}
	clone := filepath.Join(top, "clone")
	put(t, clone+"/spec.md", "build it\n", 0o644)
	put(t, clone+"/.superloop/hook.sh", "#!/bin/sh\n", 0o755)
	config := `{"runners": {"sh": {"command": ["true"]}}, "loops": [{"id": "l", "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}}]}`
	put(t, clone+"/.superloop/config.json", config, 0o644)
	sum := sha256.Sum256([]byte(config))
	r.claim.Digest = hex.EncodeToString(sum[:])
	r.git("init", "-q", "--bare", r.claim.Remote)
	r.git("init", "-q", clone)
	r.git("-C", clone, "add", "spec.md")
	r.git("-C", clone, "commit", "-q", "-m", "begin")
	if err := Offer(t.Context(), clone, r.claim, false, r.options("person")); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *remote) options(machine string) Options {
	return Options{StateHome: filepath.Join(r.top, machine, "state"), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(r.top, machine), "GIT_CONFIG_GLOBAL=/dev/null"}, Disk: durable.OS(), Log: zap.NewNop(), Now: time.Now}
}

func (r *remote) take(machine string, o Options) (*Loop, error) {
	c := r.claim
	c.Machine = machine
	return Take(r.Context(), c, o)
}

func (r *remote) must(machine string) *Loop {
	r.Helper()
	l, err := r.take(machine, r.options(machine))
	if err != nil {
		r.Fatal(err)
	}
	return l
}

func (r *remote) state() string { return r.git("-C", r.claim.Remote, "rev-parse", StateRef("l")) }

// hook has the bare repository run a script once.
func (r *remote) hook(name, script string) {
	r.Helper()
	path := filepath.Join(r.claim.Remote, "hooks", name)
	put(r, path, "#!/bin/sh\nrm -f '"+path+"'\n"+script+"\n", 0o755)
}

// works changes the files of a loop as its agents and its supervisor do.
func works(t testing.TB, l *Loop, n int) {
	t.Helper()
	put(t, filepath.Join(l.Repo, "loose.txt"), fmt.Sprintf("%d\n", n), 0o644)
	put(t, filepath.Join(l.paths.Loop, "plan.md"), fmt.Sprintf("plan %d\n", n), 0o644)
	put(t, l.paths.Head(), fmt.Sprintf("anchor %d\n", n), 0o600)
}

// has returns whether a machine has the files of works.
func has(l *Loop, n int) bool {
	loose, _ := os.ReadFile(filepath.Join(l.Repo, "loose.txt"))
	plan, _ := os.ReadFile(filepath.Join(l.paths.Loop, "plan.md"))
	head, _ := os.ReadFile(l.paths.Head())
	hook, err := os.Stat(filepath.Join(l.paths.Super, "hook.sh"))
	return string(loose) == fmt.Sprintf("%d\n", n) && string(plan) == fmt.Sprintf("plan %d\n", n) && string(head) == fmt.Sprintf("anchor %d\n", n) && err == nil && hook.Mode()&0o100 != 0
}

// TestPushOutcomes: a push counts if the remote has it, whatever the pusher has heard of it.
func TestPushOutcomes(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string][2]string{
		"refused once":        {"pre-receive", "exit 1"},
		"the answer is lost":  {"post-receive", "kill -9 $PPID"},
		"the other side ends": {"pre-receive", "kill -9 $PPID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t)
			a := r.must("a")
			works(t, a, 1)
			r.hook(hook[0], hook[1])
			if err := a.Push(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			was := r.state()
			if err := a.Push(t.Context(), false); err != nil || r.state() != was || a.rec.State != was {
				t.Errorf("nothing has changed, and it is pushed: %v", err)
			}
			if b := r.must("b"); !has(b, 1) {
				t.Error("the next machine lacks something")
			}
		})
	}
}

// TestLost: who has lost a loop gets nothing through, and keeps what it has.
func TestLost(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	a := r.must("a")
	works(t, a, 1)
	b := r.must("b") // which does not see it
	works(t, b, 2)
	if err := b.Push(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	was := r.state()
	var lost *LostError
	if err := a.Push(t.Context(), false); !errors.As(err, &lost) || lost.Ref == "" {
		t.Fatal(err)
	}
	if got := r.git("-C", a.Repo, "show", lost.Ref+":work/loose.txt"); got != "1" {
		t.Errorf("%q is kept", got)
	}
	if err := a.Push(t.Context(), false); !errors.As(err, &lost) {
		t.Errorf("it pushes again: %v", err)
	}
	if _, err := Open(t.Context(), a.Repo, "l", r.options("a")); !errors.As(err, &lost) {
		t.Errorf("it opens it: %v", err)
	}
	if r.state() != was {
		t.Error("the remote has changed")
	}
	if a = r.must("a"); !has(a, 2) {
		t.Error("it takes the loop, and lacks something")
	}
	if err := b.Push(t.Context(), true); !errors.As(err, &lost) {
		t.Errorf("the other one ends it: %v", err)
	}
	if err := a.Push(t.Context(), true); err != nil || !r.must("c").Ended() {
		t.Error("it does not end", err)
	}
}

var errDied = errors.New("died")

// dies returns options with which the process ends at a step of its writing to the disk.
func (r *remote) dies(machine string, at int) Options {
	o, steps := r.options(machine), 0
	o.Disk = o.Disk.WithFault(func(string) error {
		if steps++; steps >= at {
			return errDied
		}
		return nil
	})
	return o
}

// TestDies: a machine dies at any step of a push, or of a claim. Nothing that it or another one had pushed is lost, what it had
// not pushed counts when it goes on itself, and any machine goes on.
func TestDies(t *testing.T) {
	t.Parallel()
	stride := testkit.Sample(31, 9, 1)
	for _, pushes := range []bool{true, false} {
		for at, more := 1, true; more; at += stride {
			r := newRemote(t)
			a := r.must("a")
			works(t, a, 1)
			if err := a.Push(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			var err error
			if pushes {
				if a, err = Open(t.Context(), a.Repo, "l", r.dies("a", at)); err == nil {
					works(t, a, 2)
					err = a.Push(t.Context(), false)
				}
			} else {
				_, err = r.take("b", r.dies("b", at))
			}
			more = errors.Is(err, errDied)
			if err != nil && !more {
				t.Fatalf("step %d: %v", at, err)
			}
			switch {
			case pushes && at%2 == 0: // it goes on itself
				again := r.must("a")
				if !has(again, 2) && a != nil {
					t.Errorf("step %d of a push: it lacks its own work", at)
				}
			case pushes:
				if b := r.must("b"); !has(b, 1) && !has(b, 2) {
					t.Errorf("step %d of a push: the next machine lacks something", at)
				}
			case !has(r.must("b"), 1) || !has(r.must("c"), 1):
				t.Errorf("step %d of a claim: something is missing", at)
			}
		}
	}
}

// FuzzStates: only a state that a machine of the fleet has made is believed, whatever stands in it.
func FuzzStates(f *testing.F) {
	c := host.Claim{Workflow: "w", Loop: "l", Remote: "/r", Keys: [][]byte{[]byte("k")}}
	good := func(tree, head string) []byte {
		return fmt.Appendf(nil, "tree %s\nparent %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nstate\n\n%s%s\n", tree, head, macLine, mac(c.Keys[0], "w", tree, head))
	}
	testkit.Seed(f, good("4b825dc642cb6eb9a060e54bf8d69288fbee4904", "aa"), []byte("tree x\n\n"+macLine+"\n"), []byte("parent x\ntree y\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tree, head, err := authentic("c", raw, c)
		if err != nil {
			testkit.Message(t, err)
			return
		}
		if !bytes.Contains(raw, []byte(mac(c.Keys[0], "w", tree, head))) {
			t.Errorf("%q is believed", raw)
		}
		c := c
		c.Workflow = "another"
		if _, _, err := authentic("c", raw, c); err == nil {
			t.Error("it counts for another loop")
		}
	})
}

// TestKeys: an older key still authenticates, and a state of a foreign one is refused, with nothing changed here.
func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	r.claim.Keys = [][]byte{[]byte("newest"), []byte("new")}
	a := r.must("a")
	r.claim.Keys = [][]byte{[]byte("foreign")}
	var refused *RefusedError
	if _, err := r.take("b", r.options("b")); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	if err := a.Push(context.Background(), false); err != nil {
		t.Error(err)
	}
}
