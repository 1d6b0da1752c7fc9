package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A journal of the original is told from one of ours, and from what is neither.
func TestOriginal(t *testing.T) {
	t.Parallel()
	const theirs = `{"timestamp":"2026-01-23T10:00:00Z","event":"loop_start","loop_id":"a","run_id":"2026-01-23T10:00:00Z","iteration":1,"data":{}}`
	for line, want := range map[string]bool{
		theirs + "\n":                   true,
		theirs + "\nbroken":             true,
		theirs:                          false, // cut off, so it may be anything
		"":                              false,
		"\n":                            false,
		"[1]\n":                         false,
		`{"event":"loop_start"}` + "\n": false,
		`{"seq":1,` + theirs[1:] + "\n": false,
		strings.Repeat("[", 1<<20):      false,
	} {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Original(path); got != want {
			t.Errorf("%.60q: %v", line, got)
		}
	}
	if Original(filepath.Join(t.TempDir(), "none")) || Original(t.TempDir()) {
		t.Error("what is no file is a journal")
	}
}
