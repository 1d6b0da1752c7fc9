package add

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"/x/Fix the Login.md", "", "fix-the-login"}, {"a.b.md", "", "a-b"}, {"../..", "", ""}, {"ü.md", "", ""}, {"", "\n# Faster  *search*!\nmore", "faster-search"}, {"", "", ""},
		{"", strings.Repeat("word ", 20), "word-word-word-word-word-word-word-word"}, {"-.md", "# x", ""},
	} {
		if got := Name(c[0], []byte(c[1])); got != c[2] {
			t.Errorf("%q, %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestFree(t *testing.T) {
	t.Parallel()
	taken := Taken([]string{"a", "A-2", "b"})
	for id, want := range map[string]string{"a": "a-3", "B": "B-2", "c": "c"} {
		if got := Free(id, taken); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// The new loop is the first one with another id, spec and work tree, in the layout of the file.
func TestLoop(t *testing.T) {
	t.Parallel()
	const was = `// mine
{
  "loops": [
    {
      "id": "one", // the first
      "//": "a note",
      "git": {"commit_strategy": "never"},
      "spec_file": "a.md"
    } /* end of one */
  ] // end
}`
	const want = `// mine
{
  "loops": [
    {
      "id": "one", // the first
      "//": "a note",
      "git": {"commit_strategy": "never"},
      "spec_file": "a.md"
    }, /* end of one */
    {
      "id": "two",
      "git": {
        "commit_strategy": "never",
        "worktree": true
      },
      "spec_file": "b.md"
    }
  ] // end
}`
	next, added, err := Loop([]byte(was), "two", "b.md", nil)
	if err != nil || string(next) != want || !strings.Contains(want, added) {
		t.Errorf("%v\n%s\nwant:\n%s", err, next, want)
	}
	const line = `{"loops": [{"id": "one", "spec_file": "a.md",}]}`
	const lineWant = `{"loops": [{"id": "one", "spec_file": "a.md",}, {"id":"two","spec_file":"b.md", "git": {"worktree":true}}]}`
	if next, _, err := Loop([]byte(line), "two", "b.md", nil); err != nil || string(next) != lineWant {
		t.Errorf("%v\n%s\nwant:\n%s", err, next, lineWant)
	}
	for _, bad := range []string{"", "{}", `{"loops": []}`, `{"loops": [1]}`, `{"loops": {"0": {}}}`} {
		if next, _, err := Loop([]byte(bad), "two", "b.md", nil); err == nil {
			t.Errorf("%q became %s", bad, next)
		}
	}
}
