// Package demo is the repository that `superloop demo` plays in: a small spec,
// a check that fails for real, and the scenario of the scripted agent.
package demo

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

//go:embed files
var files embed.FS

// LoopID is the demo's only loop.
const LoopID = "greeting"

// places says where each file goes; the scenario stays outside the work tree,
// as a real agent's brain would.
var places = map[string]string{
	"spec.md":       ".superloop/specs/greeting.md",
	"config.json":   ".superloop/config.json",
	"check.sh":      "check.sh",
	"expected.txt":  "expected.txt",
	"scenario.json": ".superloop/scenario.json",
}

// Make makes the repository in dir, which must not exist yet, with exe as the
// scripted agent's program, and commits it.
func Make(ctx context.Context, d durable.Disk, dir, exe string) error {
	for name, place := range places {
		data, err := files.ReadFile("files/" + name)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, place)
		if name == "config.json" {
			data = bytes.ReplaceAll(data, []byte("@EXE@"), inJSON(exe))
			data = bytes.ReplaceAll(data, []byte("@SCENARIO@"), inJSON(filepath.Join(dir, places["scenario.json"])))
		}
		if err := d.MkdirAll("demo", filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := d.WriteFile("demo", path, data, 0o644); err != nil {
			return err
		}
	}
	// A name of its own keeps the demo's commits apart from a person's, and
	// works where nobody told git who they are.
	git := proc.Tool{Dir: dir}
	for _, args := range [][]string{
		{"git", "init", "-q"},
		{"git", "config", "user.name", "superloop demo"},
		{"git", "config", "user.email", "demo@superloop.invalid"},
		{"git", "config", "commit.gpgsign", "false"},
		{"git", "add", "check.sh", "expected.txt"},
		{"git", "commit", "-q", "-m", "A check without a program"},
	} {
		if _, err := git.Run(ctx, args...); err != nil {
			return fmt.Errorf("making the demo's repository: %w", err)
		}
	}
	return nil
}

// inJSON is s as it stands between the quotes of a JSON string.
func inJSON(s string) []byte {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return raw[1 : len(raw)-1]
}
