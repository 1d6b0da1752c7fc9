package gitcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzConfig: whatever git prints as the configuration that agents can have written, the view takes keys of the list
// alone, and no value begins a line of its own.
func FuzzConfig(f *testing.F) {
	testkit.Seed(f, []byte("core.bare\nfalse\x00filter.x.clean\nevil\x00user.name\nA \"B\" \\ #\x00core.autocrlf\x00core.excludesfile\n~/x\x00"),
		[]byte("user.name\na\n[filter \"x\"]\n\tclean = evil\x00user.email\nb\\\x00core.worktree\n/elsewhere\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		var r Repo
		var text string
		testkit.Memory(t, len(out), func() { text = (&r).config(parseConfig(out)) })
		rest, ok := strings.CutPrefix(text, ours)
		if !ok {
			t.Fatalf("superloop's own settings do not come first:\n%s", text)
		}
		for line := range strings.Lines(rest) {
			if !strings.HasPrefix(line, "[") && !strings.HasPrefix(line, "\t") || strings.Count(line, "\n") != 1 {
				t.Fatalf("the line %q in\n%s", line, text)
			}
		}
	})
}

// FuzzGitFile: whatever stands in a file .git, in commondir and in HEAD, the place of a repository is found or is not,
// and MendHead writes nothing but a file HEAD that is empty.
func FuzzGitFile(f *testing.F) {
	top := f.TempDir()
	dir := filepath.Join(top, "git")
	for _, name := range []string{"objects", "refs/heads", "logs/refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			f.Fatal(err)
		}
	}
	put := func(t testing.TB, name string, data []byte) {
		if err := os.WriteFile(filepath.Join(top, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(f, "git/refs/heads/main", []byte("0123456789012345678901234567890123456789\n"))
	f.Add([]byte("gitdir: "+dir+"\n"), []byte("../git\n"), []byte("ref: refs/heads/main\n"))
	f.Add([]byte("gitdir: git"), []byte("."), make([]byte, 30))
	f.Add([]byte("gitdir: \x00"), []byte(strings.Repeat("../", 2000)), []byte("\xff"))
	f.Fuzz(func(t *testing.T, file, common, head []byte) {
		put(t, ".git", file)
		put(t, "git/commondir", common)
		put(t, "git/HEAD", head)
		if p, ok := placeAt(top); ok && (p.top != top || !there(p.dir, "HEAD") || !there(p.common, "objects")) {
			t.Fatalf("%+v", p)
		}
		did, err := MendHead(top)
		if err != nil {
			testkit.Plain(t, err.Error())
		}
		now, rerr := os.ReadFile(filepath.Join(dir, "HEAD"))
		if rerr != nil || did == "" && string(now) != string(head) || did != "" && (strings.Trim(string(head), "\x00\n ") != "" || string(now) != "ref: refs/heads/main\n") {
			t.Fatalf("%q became %q: %s %v", head, now, did, rerr)
		}
	})
}
