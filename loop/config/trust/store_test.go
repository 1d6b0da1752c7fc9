package trust

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// childEnv makes the test binary a process that pins and is killed at a step.
const childEnv = "TRUST_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		f := strings.Split(part, "\n")
		n, err := strconv.Atoi(f[2])
		if err == nil {
			_, err = Store{durable.OS().WithFault(at(f[1], n, die)), f[0]}.Save(pinOf("new"))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// at is a fault at the n-th step of that name, from 0. Steps are counted by
// name: how often the lock is tried depends on what else the machine does.
func at(step string, n int, fault func() error) durable.Fault {
	return func(op string) error {
		if op == step {
			if n--; n == -1 {
				return fault()
			}
		}
		return nil
	}
}

func die() error {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

func full() error { return &durable.ShortWrite{N: 3, Err: syscall.ENOSPC} }

func pinOf(name string) Pin {
	s := Section{Runners: map[string]Runner{"a": {Command: []string{name}, Args: []string{}, Env: map[string]string{"K": "<&>" + secretText}}},
		Loops:    map[string]Loop{"x": {Roles: []Role{{Name: "reviewer", Runner: "a", Rest: &RoleRest{Timeout: time.Minute}}}}},
		Recovery: Policy{"enabled": true, "auto_approve": []any{name}}, Webhooks: map[string]any{}}
	return Pin{Section: s, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), How: Trusted, By: "ann", Config: "/repo/.superloop/config.json"}
}

// store is a Store whose directory is not there yet, or holds a pin.
func store(t *testing.T, pin string) Store {
	t.Helper()
	s := Store{durable.OS(), filepath.Join(t.TempDir(), "trust", "id.json")}
	if pin != "" {
		if _, err := s.Save(pinOf(pin)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func named(p Pin) string {
	if len(p.Section.Runners["a"].Command) == 0 {
		return ""
	}
	return p.Section.Runners["a"].Command[0]
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	s := store(t, "")
	if _, err := s.Load(); !errors.Is(err, ErrNoPin) || !strings.Contains(err.Error(), s.Path) {
		t.Fatalf("got %v", err)
	}
	saved, err := s.Save(pinOf("one"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Load()
	if err != nil || !same(got, saved) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, saved)
	}
	if got.Digest != got.Section.Digest() || got.Section.Loops["x"].Roles[0].Rest.Timeout != time.Minute || got.By != "ann" {
		t.Errorf("got %+v", got)
	}
	for path, want := range map[string]os.FileMode{s.Path: 0o600, filepath.Dir(s.Path): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	first, isFirst, err := s.SaveFirst(pinOf("two"))
	if err != nil || isFirst || named(first) != "one" {
		t.Errorf("the second first one: %v, %v, %v", named(first), isFirst, err)
	}
}

// Whatever is wrong with a pin, it is never "no pin".
func TestDamagedPins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm  func(t *testing.T, path string, text string) error
		says  string
		aside bool
	}{
		"empty":              {rewrite(func(string) string { return "" }), "not whole", true},
		"half":               {rewrite(func(s string) string { return s[:len(s)/2] }), "not whole", true},
		"zeros":              {rewrite(func(s string) string { return strings.Repeat("\x00", len(s)) }), "not whole", true},
		"trailing":           {rewrite(func(s string) string { return s + "{}" }), "not whole", true},
		"one entry":          {rewrite(func(s string) string { return strings.Replace(s, `"auto_approve": [`, `"auto_approve": ["evil",`, 1) }), "the digest", true},
		"one bit":            {rewrite(func(s string) string { return strings.Replace(s, `"one"`, `"ond"`, 1) }), "the digest", true},
		"more keys":          {rewrite(func(s string) string { return strings.Replace(s, `"how"`, `"odd": 1, "how"`, 1) }), "odd", true},
		"newer":              {rewrite(func(s string) string { return strings.Replace(s, `"version": 1`, `"version": 2`, 1) }), "version 2", true},
		"no time":            {rewrite(func(s string) string { return strings.Replace(s, `2026-01-02T03:04:05Z`, `0001-01-01T00:00:00Z`, 1) }), "when and how", true},
		"writable":           {func(t *testing.T, path, _ string) error { return os.Chmod(path, 0o660) }, "others can write it (mode 0660)", true},
		"directory writable": {func(t *testing.T, path, _ string) error { return os.Chmod(filepath.Dir(path), 0o770) }, "others can write its directory", true},
		"link": {func(t *testing.T, path, text string) error {
			other := filepath.Join(t.TempDir(), "other")
			return errors.Join(os.WriteFile(other, []byte(text), 0o600), os.Remove(path), os.Symlink(other, path))
		}, "symbolic link", false},
		"pipe": {func(t *testing.T, path, _ string) error {
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		}, "not a regular file", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, "one")
			text, err := os.ReadFile(s.Path)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.harm(t, s.Path, string(text)); err != nil {
				t.Fatal(err)
			}
			_, err = s.Load()
			damaged, ok := errors.AsType[*DamagedError](err)
			if !ok || errors.Is(err, ErrNoPin) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), s.Path) {
				t.Fatalf("got %v", err)
			}
			if damaged.Hint() != "superloop config trust" {
				t.Errorf("hint %q", damaged.Hint())
			}
			if _, first, err := s.SaveFirst(pinOf("two")); first || err == nil {
				t.Errorf("a first run pinned over it: %v", err)
			}
			// An operator may pin anew; what was there is kept.
			if err := os.Chmod(filepath.Dir(s.Path), 0o700); err != nil {
				t.Fatal(err)
			}
			if name == "directory writable" {
				return // mended by that
			}
			if _, err := s.Save(pinOf("three")); err != nil {
				t.Fatal(err)
			}
			if p, err := s.Load(); err != nil || named(p) != "three" {
				t.Errorf("%v, %v", named(p), err)
			}
			if _, err := os.Stat(s.Path + ".broken-0"); (err == nil) != c.aside {
				t.Errorf("kept: %v", err)
			}
		})
	}
}

func rewrite(f func(string) string) func(*testing.T, string, string) error {
	return func(t *testing.T, path, text string) error {
		if f(text) == text {
			t.Fatal("nothing is harmed")
		}
		return os.WriteFile(path, []byte(f(text)), 0o600)
	}
}

func TestHugePin(t *testing.T) {
	t.Parallel()
	s := store(t, "one")
	if err := os.Truncate(s.Path, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), "more than 32 MiB") {
		t.Errorf("got %v", err)
	}
}

// steps are those of pinning over a pin, or over a damaged one.
func steps(t *testing.T, s Store) []string {
	t.Helper()
	var all []string
	s.Disk = durable.OS().WithFault(func(op string) error { all = append(all, op); return nil })
	if _, err := s.Save(pinOf("new")); err != nil {
		t.Fatal(err)
	}
	return all
}

// Each step of pinning fails once, and is once the last that the process does:
// the pin is the old one or the new one, and the next one is taken.
func TestEveryStep(t *testing.T) {
	t.Parallel()
	fresh := func(t *testing.T) Store { return store(t, "") }
	pinned := func(t *testing.T) Store { return store(t, "old") }
	broken := func(t *testing.T) Store {
		s := store(t, "old")
		if err := os.WriteFile(s.Path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, c := range map[string]struct {
		prepare func(*testing.T) Store
		may     []string
		least   int
	}{"fresh": {fresh, []string{"none", "new"}, 9}, "pinned": {pinned, []string{"old", "new"}, 9}, "broken": {broken, []string{"broken", "new"}, 14}} {
		all := steps(t, c.prepare(t))
		if len(all) < c.least {
			t.Fatalf("%s: only the steps %q", name, all)
		}
		check := func(t *testing.T, s Store) {
			t.Helper()
			p, err := s.Load()
			got := named(p)
			if errors.Is(err, ErrNoPin) {
				got = "none"
			} else if err != nil {
				got = "broken"
			}
			if !slices.Contains(c.may, got) {
				t.Errorf("the pin is %q (%v)", got, err)
			}
			if _, err := s.Save(pinOf("next")); err != nil {
				t.Fatal(err)
			}
			if p, err := s.Load(); err != nil || named(p) != "next" {
				t.Errorf("then %q, %v", named(p), err)
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path), ".*.tmp-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		}
		for k, step := range all {
			nth := 0
			for _, before := range all[:k] {
				if before == step && !strings.HasPrefix(step, "lock:") {
					nth++
				}
			}
			t.Run(fmt.Sprintf("%s/fails/%d-%s", name, k, step), func(t *testing.T) {
				t.Parallel()
				s := c.prepare(t)
				s.Disk = durable.OS().WithFault(at(step, nth, full))
				_, err := s.Save(pinOf("new"))
				// The text in a lock is for messages; without it the lock holds.
				if step != "lock:write" && !durable.IsFull(err) || step == "lock:write" && err != nil {
					t.Errorf("got %v", err)
				}
				s.Disk = durable.OS()
				if p, err := s.Load(); step != "trust:dirsync" && step != "lock:write" && err == nil && named(p) == "new" {
					t.Error("it failed, but the new pin is in place")
				}
				check(t, s)
			})
			t.Run(fmt.Sprintf("%s/killed/%d-%s", name, k, step), func(t *testing.T) {
				t.Parallel()
				s := c.prepare(t)
				p, err := os.StartProcess(os.Args[0], []string{os.Args[0]}, &os.ProcAttr{
					Env: append(os.Environ(), childEnv+"="+s.Path+"\n"+step+"\n"+strconv.Itoa(nth)), Files: []*os.File{nil, os.Stdout, os.Stderr}})
				if err != nil {
					t.Fatal(err)
				}
				st, err := p.Wait()
				if err != nil || st.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("it was not killed: %v, %v", st, err)
				}
				check(t, s)
			})
		}
	}
}

// Of many first runs at once exactly one pins, and all see its pin.
func TestManyFirstRuns(t *testing.T) {
	t.Parallel()
	s := store(t, "")
	var wg sync.WaitGroup
	got := make([]string, 8)
	firsts := make([]bool, len(got))
	for i := range got {
		wg.Go(func() {
			p, first, err := s.SaveFirst(pinOf(fmt.Sprint("run", i)))
			if err != nil {
				t.Error(err)
			}
			got[i], firsts[i] = named(p), first
		})
	}
	wg.Wait()
	who := slices.Index(firsts, true)
	if who < 0 || slices.Contains(firsts[who+1:], true) {
		t.Fatalf("first: %v", firsts)
	}
	for _, g := range got {
		if g != fmt.Sprint("run", who) {
			t.Errorf("they see %q", got)
		}
	}
}

// The pins of two repositories lie in one directory. Whoever writes one neither waits for the other nor removes what is
// being written there.
func TestPinsOfRepositoriesApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := durable.OS().Lock(filepath.Join(dir, ".one.json.lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	foreign, own := filepath.Join(dir, ".one.json.tmp-1"), filepath.Join(dir, ".two.json.tmp-1")
	for _, file := range []string{foreign, own} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (Store{durable.OS(), filepath.Join(dir, "two.json")}).Save(pinOf("new")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("what another writes is gone: %v", err)
	}
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("what a killed writer left is there: %v", err)
	}
	if _, err := (Store{durable.OS(), filepath.Join(dir, "one.json")}).Load(); err == nil {
		t.Error("the other pin was written")
	}
}
