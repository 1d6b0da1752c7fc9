// Package demo makes the repository in which `superloop demo` runs. The repository holds a small program, a check, and
// the scenario of the scripted agent. The check really fails: the sources are right, but the installed dependency has
// the wrong version.
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
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/proc"
)

//go:embed files
var files embed.FS

const (
	// LoopID is the demo's only loop.
	LoopID = "greeting"
	// Remedy is the remedy that the tester proposes and that repairs the repository.
	Remedy = "rm -rf deps && sh scripts/install.sh"
	// Failure is the error message that the check of the broken repository prints.
	Failure = `Cannot start service: Host version "0.21.5" does not match binary version "0.27.2"`
)

// Options say which demo Make makes.
type Options struct {
	Dir string // must not exist yet
	Exe string // the program of the scripted agent
	// Escalate leaves the remedy out of the policy, so that superloop asks the operator.
	Escalate bool
}

// Make makes the repository in its broken state: the second commit takes back an update of a dependency, and the
// updated version is still installed.
func Make(ctx context.Context, d durable.Disk, o Options) error {
	if err := write(d, o); err != nil {
		return err
	}
	run := func(args ...string) error {
		if _, err := gitcmd.Scratch(ctx, o.Dir, args...); err != nil {
			return fmt.Errorf("making the demo's repository: %w", err)
		}
		return nil
	}
	for _, args := range [][]string{
		{"init", "-q"},
		// The demo's commits have their own author, so they also work where git has no user.name.
		{"config", "user.name", "superloop demo"},
		{"config", "user.email", "demo@superloop.invalid"},
		{"add", "--", ".", ":!.superloop"},
		{"commit", "-q", "-m", "A build without a program, and engine 0.27.2"},
	} {
		if err := run(args...); err != nil {
			return err
		}
	}
	if _, err := proc.System(ctx, o.Dir, "sh", "scripts/install.sh"); err != nil {
		return fmt.Errorf("making the demo's repository: %w", err)
	}
	manifest, err := files.ReadFile("files/repo/deps.txt")
	if err == nil {
		err = d.WriteFile("demo", filepath.Join(o.Dir, "deps.txt"), manifest, 0o644)
	}
	if err != nil {
		return err
	}
	return run("commit", "-q", "-a", "-m", "Take the update back: the host needs engine 0.21.5")
}

// write writes the files of the first commit, in which the dependency is updated.
func write(d durable.Disk, o Options) error {
	// With Escalate the policy lists only a part of the remedy. The whole remedy is another command, and is not listed.
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

// place returns the path of an embedded file in the demo's repository. The embedded names carry no leading dot, because
// The embed directive leaves out files whose names begin with one.
func place(name string) string {
	name = strings.Replace(strings.TrimPrefix(name, "files/"), "superloop/", ".superloop/", 1)
	return strings.Replace(strings.TrimPrefix(name, "repo/"), "gitignore", ".gitignore", 1)
}

// inJSON returns s as it stands between the quotes of a JSON string.
func inJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the operator reads the configuration
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}
