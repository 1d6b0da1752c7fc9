package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/testkit"
)

// world is a bare remote, and daemons that share nothing but it.
type world struct {
	t      testing.TB
	dir    string
	remote string
	now    atomic.Int64 // seconds of the clock of all
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.remote = filepath.Join(w.dir, "remote.git")
	w.git("init", "-q", "--bare", w.remote)
	return w
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// daemon returns the store of a daemon with a repository of its own.
func (w *world) daemon(name string) *Store {
	w.t.Helper()
	dir := filepath.Join(w.dir, name)
	w.git("init", "-q", dir)
	w.git("-C", dir, "commit", "-q", "--allow-empty", "-m", name)
	repo, err := gitcmd.Open(context.Background(), dir, filepath.Join(w.dir, "private-"+name), os.Environ())
	if err != nil {
		w.t.Fatal(err)
	}
	return &Store{Git: repo, Remote: w.remote, Holder: name, Name: name + "@host", TTL: time.Minute,
		Now: func() time.Time { return time.Unix(w.now.Load(), 0) }}
}

// all returns the claims as a daemon sees them.
func all(t testing.TB, s *Store) map[string]Claim {
	t.Helper()
	got, err := s.All(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func must(t testing.TB, c Claim, err error) Claim {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// One of two gets an item. A lease counts as long as it is renewed, by the clock of who looks. Who has slept through it can
// neither renew, nor deliver, nor say that it has failed, and its branch does not arrive.
func TestLease(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newWorld(t)
	a, b := w.daemon("a"), w.daemon("b")
	none := Claim{Item: "github-17"}
	mine, err := a.Take(ctx, none, "17", "issue-17")
	mine = must(t, mine, err)
	if _, err := b.Take(ctx, none, "17", "issue-17"); !errors.Is(err, ErrTaken) {
		t.Fatal(err)
	}
	seen := all(t, b)["github-17"]
	if seen != mine || b.Free(seen) {
		t.Fatalf("%+v, not %+v, free: %v", seen, mine, b.Free(seen))
	}
	for range 3 { // it lives
		w.now.Add(40)
		mine, err = a.Renew(ctx, mine)
		mine = must(t, mine, err)
		if seen = all(t, b)["github-17"]; b.Free(seen) {
			t.Fatalf("%+v is free", seen)
		}
	}
	w.now.Add(59)
	if seen = all(t, b)["github-17"]; b.Free(seen) {
		t.Fatal("free before its time")
	}
	w.now.Add(1)
	if seen = all(t, b)["github-17"]; !b.Free(seen) || a.Free(all(t, a)["github-17"]) {
		t.Fatal("nobody may take an abandoned item, or its own holder may")
	}
	theirs, err := b.Take(ctx, seen, "17", "issue-17")
	theirs = must(t, theirs, err)
	if theirs.Term != 2 || theirs.Holder != "b" {
		t.Fatalf("%+v", theirs)
	}
	head := w.git("-C", filepath.Join(w.dir, "a"), "rev-parse", "HEAD")
	for what, do := range map[string]func() error{
		"renew": func() error { _, err := a.Renew(ctx, mine); return err },
		"deliver": func() error {
			_, err := a.End(ctx, mine, Delivered, "", head+":refs/heads/superloop/issue-17")
			return err
		},
		"fail":    func() error { _, err := a.End(ctx, mine, Failed, "no"); return err },
		"release": func() error { return a.Release(ctx, mine) },
	} {
		if err := do(); !errors.Is(err, ErrLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if refs := w.git("-C", w.remote, "for-each-ref", "refs/heads"); refs != "" {
		t.Errorf("the branch of a daemon that has lost the item has arrived: %s", refs)
	}
	if local := w.git("-C", filepath.Join(w.dir, "a"), "for-each-ref", Place); local != "" {
		t.Errorf("claims are refs of the user's repository: %s", local)
	}
	head = w.git("-C", filepath.Join(w.dir, "b"), "rev-parse", "HEAD")
	done, err := b.End(ctx, theirs, Delivered, "", head+":refs/heads/superloop/issue-17")
	done = must(t, done, err)
	w.now.Add(1000)
	if seen = all(t, a)["github-17"]; a.Free(seen) || seen.State != Delivered {
		t.Fatalf("%+v", seen)
	}
	if got := w.git("-C", w.remote, "rev-parse", "refs/heads/superloop/issue-17"); got != head {
		t.Fatal(got)
	}
	if err := a.Release(ctx, done); err != nil { // a person does so
		t.Fatal(err)
	}
	if err := a.Release(ctx, done); err != nil {
		t.Fatalf("what is released already: %v", err)
	}
	if left := all(t, b); len(left) > 0 || !b.Free(left["github-17"]) {
		t.Fatalf("%+v", left)
	}
}

// A branch that the remote refuses, because somebody else has pushed to it, leaves the claim as it was.
func TestDeliveryIsOnePush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.daemon("a"), w.daemon("b")
	c, err := a.Take(t.Context(), Claim{Item: "x-1"}, "X-1", "x-1")
	c = must(t, c, err)
	w.git("-C", filepath.Join(w.dir, "b"), "push", "-q", w.remote, "HEAD:refs/heads/superloop/x-1")
	head := w.git("-C", filepath.Join(w.dir, "a"), "rev-parse", "HEAD")
	if got, err := a.End(t.Context(), c, Delivered, "", head+":refs/heads/superloop/x-1"); err == nil || errors.Is(err, ErrLost) || got != c {
		t.Fatalf("%+v %v", got, err)
	}
	if seen := all(t, b)["x-1"]; seen != c {
		t.Fatalf("%+v", seen)
	}
}

// A push whose answer is lost counts once, whether it has arrived or not.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, arrives := range []bool{true, false} {
		w := newWorld(t)
		a := w.daemon("a")
		c, err := a.Take(ctx, Claim{Item: "x-1"}, "X-1", "x-1")
		c = must(t, c, err)
		name, script := "pre-receive", "exit 1"
		if arrives { // the ref changes, and the client hears of an error
			name, script = "reference-transaction", "[ \"$1\" != committed ] || kill -9 $PPID"
		}
		hook := filepath.Join(w.remote, "hooks", name)
		if err := os.WriteFile(hook, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := a.Renew(ctx, c)
		if arrives != (err == nil) || errors.Is(err, ErrLost) {
			t.Fatalf("arrives %v: %v", arrives, err)
		}
		if err := os.Remove(hook); err != nil {
			t.Fatal(err)
		}
		if seen := all(t, a)["x-1"]; seen != got || (got.Beat == 2) != arrives {
			t.Fatalf("arrives %v: %+v, not %+v", arrives, seen, got)
		}
	}
}

// What somebody has put in the place of a claim is a claim that nobody takes, until a person releases it.
func TestRefsThatHoldNoClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.daemon("a")
	dir := filepath.Join(w.dir, "a")
	w.git("-C", dir, "push", "-q", w.remote, "HEAD:"+Place+"commit")
	blob := filepath.Join(w.dir, "blob")
	if err := os.WriteFile(blob, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.git("-C", dir, "push", "-q", w.remote, w.git("-C", dir, "hash-object", "-w", blob)+":"+Place+"blob")
	c, err := a.Take(t.Context(), Claim{Item: "x-1"}, "X-1", "x-1")
	c = must(t, c, err)
	w.git("-C", dir, "push", "-q", w.remote, c.At+":"+Place+"x-2")
	w.now.Add(1000)
	seen := all(t, w.daemon("b"))
	for _, item := range []string{"commit", "blob", "x-2"} {
		if c := seen[item]; c.Why == "" || c.At == "" || a.Free(c) {
			t.Errorf("%s: %+v", item, c)
		}
	}
	if seen["x-1"] != c {
		t.Errorf("%+v", seen["x-1"])
	}
	if err := a.Release(t.Context(), seen["x-2"]); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "A", "../x", "a b", "-x", "x.lock", strings.Repeat("x", 200)} {
		if _, err := a.Take(t.Context(), Claim{Item: bad}, "x", "x"); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Of many daemons that want all items, each item is delivered once, by the one that has it, though some of them die in the
// middle and some wake up again after others have taken over.
func TestManyDaemons(t *testing.T) {
	t.Parallel()
	daemons, items := testkit.Sample(6, 20, 100), testkit.Sample(24, 200, 1000)
	w := newWorld(t)
	var mu sync.Mutex
	begun, delivered, refused := map[string][]string{}, map[string][]string{}, 0
	var running sync.WaitGroup
	var done atomic.Int64
	for n := range daemons {
		s := w.daemon(fmt.Sprint("d", n))
		running.Go(func() {
			var sleeping []Claim // what it has taken, and sleeps over
			work := func(c Claim) {
				sha, err := s.Git.Run(t.Context(), nil, "rev-parse", "HEAD")
				if err == nil {
					_, err = s.End(t.Context(), c, Delivered, "", strings.TrimSpace(string(sha))+":refs/heads/superloop/"+c.Loop)
				}
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					delivered[c.Item] = append(delivered[c.Item], s.Holder)
					done.Add(1)
				case errors.Is(err, ErrLost):
					refused++
				default:
					t.Errorf("delivering %s: %v", c.Item, err)
				}
			}
			for turn := 0; done.Load() < int64(items) && !t.Failed(); turn++ {
				there, err := s.All(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				var free []string
				for i := range items { // each begins elsewhere, and takes some of what it has seen
					item := fmt.Sprint("github-", (i+n*items/daemons)%items)
					if s.Free(there[item]) && len(free) < 4 {
						free = append(free, item)
					}
				}
				if len(free) == 0 {
					for _, c := range sleeping {
						work(c)
					}
					sleeping = nil
					w.now.Add(61) // whatever nobody has renewed is abandoned now
				}
				for i, item := range free {
					now := there[item]
					now.Item = item
					c, err := s.Take(t.Context(), now, item, "issue-"+item)
					if errors.Is(err, ErrTaken) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					begun[item] = append(begun[item], fmt.Sprint(s.Holder, " in term ", c.Term))
					mu.Unlock()
					switch (turn + i) % 5 {
					case 3: // it dies: nobody renews this claim
					case 4:
						sleeping = append(sleeping, c)
					default:
						work(c)
					}
				}
			}
		})
	}
	running.Wait()
	twice := 0
	for i := range items {
		item := fmt.Sprint("github-", i)
		if len(delivered[item]) != 1 {
			t.Errorf("%s was delivered by %q, begun by %q", item, delivered[item], begun[item])
		}
		if terms := slices.Compact(slices.Sorted(slices.Values(begun[item]))); len(terms) != len(begun[item]) {
			t.Errorf("%s: %q", item, begun[item])
		}
		if len(begun[item]) > 1 {
			twice++
		}
	}
	if branches := strings.Fields(w.git("-C", w.remote, "for-each-ref", "--format=%(refname)", "refs/heads")); len(branches) != items {
		t.Errorf("%d branches", len(branches))
	}
	t.Logf("%d daemons, %d items: each delivered once; %d were taken over, %d deliveries of daemons that had lost their item were refused", daemons, items, twice, refused)
}

// FuzzClaim: a commit is a claim, or the error says why not.
func FuzzClaim(f *testing.F) {
	head := "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor superloop <superloop@localhost> 1 +0000\n\n"
	testkit.Seed(f, []byte(head+`{"item":"x-1","loop":"x-1","holder":"a","name":"a@b","state":"working","term":1,"beat":1,"since":"2026-01-02T03:04:05Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[Claim]{Decode: decode, Encode: func(c Claim) ([]byte, error) {
			message, err := json.Marshal(c)
			return append([]byte(head), message...), err
		}}.Check(t, data)
		next(data)
	})
}
