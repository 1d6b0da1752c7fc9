// Package demo is the repository that `superloop demo` plays in: a small program whose build is broken by what is
// installed and not by what is written, a check that fails for real because of it, and the scenario of the scripted
// agent.
package demo

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

//go:embed files
var files embed.FS

const (
	// LoopID is the demo's only loop.
	LoopID = "greeting"
	// Remedy is the remedy that the tester proposes, and that repairs the repository.
	Remedy = "rm -rf deps && sh scripts/install.sh"
	// Failure is what the check prints.
	Failure = `Cannot start service: Host version "0.21.5" does not match binary version "0.27.2"`
)

// Options say which demo is made.
type Options struct {
	Dir string // must not exist yet
	Exe string // the scripted agent's program
	// Escalate leaves the remedy out of the policy, so that the operator is asked.
	Escalate bool
}

// Make makes the repository, whose history has left it broken: an update was taken back, and nobody installed again.
func Make(ctx context.Context, d durable.Disk, o Options) error {
	if err := write(d, o); err != nil {
		return err
	}
	run := func(args ...string) error {
		if _, err := (proc.Tool{Dir: o.Dir}).Run(ctx, args...); err != nil {
			return fmt.Errorf("making the demo's repository: %w", err)
		}
		return nil
	}
	for _, args := range [][]string{
		{"git", "init", "-q"},
		// The demo's commits have their own author, who also exists where nobody told git a name.
		{"git", "config", "user.name", "superloop demo"},
		{"git", "config", "user.email", "demo@superloop.invalid"},
		{"git", "config", "commit.gpgsign", "false"},
		{"git", "add", "--", ".", ":!.superloop"},
		{"git", "commit", "-q", "-m", "A build without a program, and engine 0.27.2"},
		{"sh", "scripts/install.sh"},
	} {
		if err := run(args...); err != nil {
			return err
		}
	}
	manifest, err := files.ReadFile("files/repo/deps.txt")
	if err == nil {
		err = d.WriteFile("demo", filepath.Join(o.Dir, "deps.txt"), manifest, 0o644)
	}
	if err != nil {
		return err
	}
	return run("git", "commit", "-q", "-a", "-m", "Take the update back: the host needs engine 0.21.5")
}

// write writes the files as they are before the update is taken back.
func write(d durable.Disk, o Options) error {
	// The policy lists the remedy, or only a part of it: that is another command.
	listed := Remedy
	if o.Escalate {
		listed = "sh scripts/install.sh"
	}
	fill := map[string]*strings.Replacer{
		"config.json": strings.NewReplacer("@EXE@", inJSON(o.Exe), "@LISTED@", `"`+inJSON(listed)+`"`,
			"@SCENARIO@", inJSON(filepath.Join(o.Dir, ".superloop", "scenario.json"))),
		"deps.txt": strings.NewReplacer("0.21.5", "0.27.2"),
	}
	return fs.WalkDir(files, "files", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		if r := fill[path.Base(name)]; r != nil {
			data = []byte(r.Replace(string(data)))
		}
		to := filepath.Join(o.Dir, filepath.FromSlash(place(name)))
		if err := d.MkdirAll("demo", filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return d.WriteFile("demo", to, data, 0o644)
	})
}

// place is where a file of the demo lies in the repository. A name that begins with a dot is not embedded.
func place(name string) string {
	name = strings.Replace(strings.TrimPrefix(name, "files/"), "superloop/", ".superloop/", 1)
	return strings.Replace(strings.TrimPrefix(name, "repo/"), "gitignore", ".gitignore", 1)
}

// inJSON is s as it stands between the quotes of a JSON string.
func inJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // people read it
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}
