package inputs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

// TestRealNpm lets the real npm do what it does after each edit. What runs code of
// the agent's must have been a change; the plain new dependency is none and runs
// nothing.
func TestRealNpm(t *testing.T) {
	t.Parallel()
	if _, err := proc.LookPath("npm", os.Environ()); err != nil {
		t.Skip("npm is not here: ", err)
	}
	const app = `
-- package.json --
{"name": "app", "version": "1.0.0", "private": true, "scripts": {"ok": "node ok.js"}, "workspaces": ["packages/*"]}
-- ok.js --
1
-- packages/a/package.json --
{"name": "a", "version": "1.0.0"}
-- tool/package.json --
{"name": "tool", "version": "1.0.0"}
-- .gitignore --
node_modules
ran
`
	for _, c := range []struct {
		name    string
		edit    func(b box)
		command []string
		runs    bool
	}{
		{"a version and a script of tests", func(b box) {
			b.put("package.json", `{"name": "app", "version": "1.1.0", "private": true, "scripts": {"ok": "node ok.js", "test": "touch ran"}, "workspaces": ["packages/*"]}`)
		}, []string{"npm", "install"}, false},
		{"prepare, escaped", func(b box) { b.replace("package.json", `"ok"`, `"prep\u0061re": "touch ran", "ok"`) }, []string{"npm", "install"}, true},
		{"a member's postinstall", func(b box) {
			b.replace("packages/a/package.json", `"1.0.0"`, `"1.0.0", "scripts": {"postinstall": "touch ../../ran"}`)
		}, []string{"npm", "ci"}, true},
		{"script-shell", func(b box) {
			b.put(".npmrc", "script-shell=./evilsh\n")
			b.put("evilsh", "#!/bin/sh\ntouch ran\n")
			if err := os.Chmod(filepath.Join(b.dir, "evilsh"), 0o755); err != nil {
				b.t.Fatal(err)
			}
		}, []string{"npm", "run", "ok"}, true},
		{"a dependency that is a directory", func(b box) {
			b.replace("package.json", `"private"`, `"dependencies": {"tool": "file:./tool"}, "private"`)
			b.put("tool/package.json", `{"name": "tool", "version": "1.0.0", "scripts": {"install": "touch ../ran"}}`)
		}, []string{"npm", "install"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, app)
			npm := func(argv []string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				argv = append(argv, "--offline", "--no-audit", "--no-fund", "--no-update-notifier")
				if out, err := (proc.Tool{Dir: b.dir, Env: b.env}).Run(ctx, argv...); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			if c.command[1] == "ci" {
				npm([]string{"npm", "install", "--package-lock-only"})
				b.commit()
			}
			q := Query{Commands: [][]string{c.command}}
			base := b.take(q)
			c.edit(b)
			found := names(b.check(base, q))
			npm(c.command)
			_, err := os.Stat(filepath.Join(b.dir, "ran"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if ran := err == nil; ran != c.runs || c.runs != (found != "") {
				t.Errorf("ran: %v; the guard found %q", ran, found)
			}
		})
	}
}
