package bare

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/roles"
)

func loopIn(t *testing.T) Loop {
	t.Helper()
	repo := t.TempDir()
	paths, err := layout.NewPaths(repo, "prompt", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Loop{ID: "prompt", Repo: repo, Paths: paths, Words: []string{"claude"}, MaxIterations: 3, Promise: "OK", Disk: durable.OS(),
		LookPath: func(string) (string, error) { return "", os.ErrNotExist }}
}

// A prompt that is none is a mistake of the operator, with the command to type.
func TestNoPrompt(t *testing.T) {
	t.Parallel()
	l := loopIn(t)
	file := func(name, text string) string {
		path := filepath.Join(l.Repo, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, set := range map[string]func(*Loop){
		"the prompt is empty":   func(l *Loop) { l.Text = " \n" },
		"a prompt has at most":  func(l *Loop) { l.Text = strings.Repeat("x", roles.MaxTemplate+1) },
		"there is no file":      func(l *Loop) { l.File = filepath.Join(l.Repo, "none.md") },
		"is not a file":         func(l *Loop) { l.File = l.Repo },
		"is empty":              func(l *Loop) { l.File = file("empty.md", "\n") },
		"is not UTF-8 text":     func(l *Loop) { l.File = file("odd.md", "\xff") },
		"is larger than":        func(l *Loop) { l.File = file("large.md", strings.Repeat("x", roles.MaxTemplate+1)) },
		"no agent is named":     func(l *Loop) { l.Text, l.Words = "x", nil },
		"repository's configur": func(l *Loop) { l.Text, l.Base = "x", []byte("[") },
	} {
		bad := l
		set(&bad)
		_, err := bad.Make()
		usage, ok := errors.AsType[*UsageError](err)
		if !ok || !strings.Contains(err.Error(), want) || !strings.HasPrefix(usage.Next, "superloop run ") {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// A prompt in the repository stays the operator's file. One from elsewhere, and one that was typed, are copied to where
// no agent writes.
func TestWhereThePromptIs(t *testing.T) {
	t.Parallel()
	l := loopIn(t)
	outside := filepath.Join(t.TempDir(), "P.md")
	inside := filepath.Join(l.Repo, "sub dir", "P.md")
	if err := os.Mkdir(filepath.Dir(inside), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{inside, outside} {
		if err := os.WriteFile(path, []byte("do it"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(l.Repo, "link.md")); err != nil {
		t.Fatal(err)
	}
	own := ".superloop/loops/prompt/prompt.md"
	for _, c := range []struct{ text, file, spec string }{
		{"do it", "", own}, {"", inside, "sub dir/P.md"}, {"", outside, own}, {"", filepath.Join(l.Repo, "link.md"), own},
	} {
		one := l
		one.Text, one.File = c.text, c.file
		made, err := one.Make()
		if err != nil {
			t.Fatal(err)
		}
		if got := made.Config.Loops[0].SpecFile; got != c.spec || made.Anew {
			t.Errorf("%+v: the spec is %s, anew %v", c, got, made.Anew)
		}
		if err := one.Write(made); err != nil {
			t.Fatal(err)
		}
		copied, err := os.ReadFile(filepath.Join(l.Repo, own))
		if err != nil || string(copied) != "do it" {
			t.Errorf("%+v: %v %q", c, err, copied)
		}
	}
}
