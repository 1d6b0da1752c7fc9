package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/durable"
)

// Whatever step of the disk fails, all specs of a plan are written or none. After a kill at any step no spec is there without
// those on which it depends, except for what begins nothing, and the same words again write the rest.
func TestPlanSplitIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		for step := 1; ; step++ {
			repo, state := t.TempDir(), t.TempDir()
			plan := filepath.Join(repo, "plan.md")
			if err := os.WriteFile(plan, []byte("# A\n# B\n# C\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			call := func(disk durable.Disk) error {
				var out, talk bytes.Buffer
				a := &app{stdout: &out, stderr: &talk, disk: disk, env: func(name string) string {
					return map[string]string{"XDG_STATE_HOME": state}[name]
				}}
				verb := a.commands()[slices.IndexFunc(a.commands(), func(c *cli.Command) bool { return c.Name == "plan" })]
				for _, sub := range verb.Subcommands {
					sub.Action = a.planSplit // whoever runs this test may be an agent
				}
				c := &cli.App{Name: "superloop", Writer: &out, ErrWriter: &talk, ExitErrHandler: func(*cli.Context, error) {}, Commands: []*cli.Command{verb}}
				return c.RunContext(t.Context(), []string{"superloop", "plan", "split", "--repo", repo, plan})
			}
			there := func() string {
				t.Helper()
				files, err := filepath.Glob(filepath.Join(repo, ".superloop", "backlog", "*.md"))
				if err != nil {
					t.Fatal(err)
				}
				for i := range files {
					files[i] = filepath.Base(files[i])
				}
				return strings.Join(files, " ")
			}
			n, broken := 0, errors.New("broken")
			err := call(durable.OS().WithFault(func(string) error {
				if n++; n == step || killed && n > step {
					return broken
				}
				return nil
			}))
			const all = "01-a.md 02-b.md 03-c.md"
			switch got := there(); {
			case err == nil && n >= step && got != all, err != nil && !errors.Is(err, broken):
				t.Fatalf("step %d: %v, %q", step, err, got)
			case err != nil && !killed && got != "":
				t.Fatalf("step %d failed, and %q is there", step, got)
			case err != nil && killed && !strings.HasSuffix(all, got):
				t.Fatalf("killed at step %d, and %q is there", step, got)
			}
			if err := call(durable.OS()); err != nil || there() != all {
				t.Fatalf("step %d, again: %v, %q", step, err, there())
			}
			if n < step {
				if step < 10 {
					t.Fatalf("only %d steps", step)
				}
				break
			}
		}
	}
}
