package selftest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == proc.SpawnerArg:
		os.Exit(proc.SpawnerMain())
	case strings.HasPrefix(filepath.Base(os.Args[0]), "claude"):
		os.Exit(runFake(os.Args))
	}
	os.Exit(m.Run())
}

// options are for a CLI that is the program.
func options(t *testing.T, cli, program string) Options {
	t.Helper()
	s, err := proc.Start(proc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	// A short path: some CLIs put sockets below it.
	return Options{CLI: cli, Program: program, Path: os.Getenv("PATH"), Dir: Scratch(), Disk: durable.OS(), Runner: s,
		Each: func(c Case) {
			var b strings.Builder
			Line(&b, c)
			t.Log(strings.TrimRight(b.String(), "\n"))
		}}
}

// fake makes the fake claude under that name.
func fake(t *testing.T, name string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(exe, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func gone(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", dir, err)
	}
}

func TestFakeClaude(t *testing.T) {
	t.Parallel()
	o := options(t, "claude", fake(t, "claude"))
	o.Silence = time.Second
	card, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if card.Version != "9.9.9 (Claude Code)" || card.Adapter != "claude" || len(card.Cases) != len(scenarios()) {
		t.Errorf("%s, %s, %d cases", card.Version, card.Adapter, len(card.Cases))
	}
	for _, c := range card.Cases {
		if c.Status != OK || c.Requests == 0 {
			t.Errorf("%s: %s after %d requests", c.Name, c.Status, c.Requests)
		}
	}
	if card.Status == Failed {
		t.Error(card.Verdict)
	}
	gone(t, o.Dir)
}

// TestVices: what a CLI does wrong is found, and nothing else.
func TestVices(t *testing.T) {
	t.Parallel()
	for vice, failed := range map[string][]string{
		"miscounting": {"success", "tools"},
		"idle":        {"tools"},
		"blind":       {"refused key (401)", "limit (429)", "overload (529 or 503)"},
		"bare":        {"secrets"},
	} {
		t.Run(vice, func(t *testing.T) {
			t.Parallel()
			o := options(t, "claude", fake(t, "claude-"+vice))
			o.Silence = time.Second
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var got []string
			o.Each = func(c Case) {
				if c.Status == Failed {
					got = append(got, c.Name)
				}
			}
			card, err := Run(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range failed {
				if !slices.Contains(got, name) {
					t.Errorf("%s did not fail", name)
				}
			}
			if card.Status != Failed {
				t.Error(card.Verdict)
			}
			gone(t, o.Dir)
		})
	}
}

// TestInterrupted: the test ends with its context, and takes everything away.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	o := options(t, "claude", fake(t, "claude"))
	o.Silence = time.Second
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("the operator has seen enough")
	o.Each = func(Case) { stop(why) }
	card, err := Run(ctx, o)
	if !errors.Is(err, why) || len(card.Cases) != 1 {
		t.Errorf("%v after %d cases", err, len(card.Cases))
	}
	gone(t, o.Dir)
}

// TestPermissions: a CLI that asks, obeys and waits is whole; what it does otherwise is found. One that cannot be asked
// differs.
func TestPermissions(t *testing.T) {
	t.Parallel()
	for vice, failed := range map[string]string{"claude": "", "claude-silent": "asks obeys observed", "claude-deaf": "obeys", "claude-hasty": "obeys waits"} {
		t.Run(vice, func(t *testing.T) {
			t.Parallel()
			o := options(t, "claude", fake(t, vice))
			o.Permissions, o.Hold = true, 300*time.Millisecond
			card, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range card.Cases {
				if c.Status == Failed {
					got = append(got, c.Name)
				}
			}
			if strings.Join(got, " ") != failed || len(card.Cases) != 4 {
				t.Errorf("%q failed: %+v", got, card)
			}
			gone(t, o.Dir)
		})
	}
	if c := unasked("generic"); c.Status != Differs || !strings.Contains(c.Checks[0].Seen, "claude") {
		t.Errorf("%+v", c)
	}
}

// TestRealCLIs drives claude and codex where they are found in the folders of
// SUPERLOOP_TEST_CLIS (a list like PATH). The others take minutes: they are for
// `superloop doctor --live`.
func TestRealCLIs(t *testing.T) {
	dirs := os.Getenv("SUPERLOOP_TEST_CLIS")
	if dirs == "" {
		t.Skip("SUPERLOOP_TEST_CLIS names no folders with CLIs")
	}
	for _, cli := range []string{"claude", "codex"} {
		program, err := proc.LookPath(cli, []string{"PATH=" + dirs})
		if err != nil {
			t.Logf("%s is not there", cli)
			continue
		}
		t.Run(cli, func(t *testing.T) {
			o := options(t, cli, program)
			card, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			Tail(&b, card)
			t.Log(b.String())
			if card.Status != OK {
				t.Error(card.Verdict)
			}
			gone(t, o.Dir)
			o.Dir, o.Permissions, o.Hold = Scratch(), true, 2*time.Second
			if card, err = Run(t.Context(), o); err != nil || card.Status != OK {
				t.Errorf("%v %s", err, card.Verdict)
			}
		})
	}
}
