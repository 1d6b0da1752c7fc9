package gate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// noon is the time of every file in these tests.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)

// repo makes a directory with these files; a name that ends in "/" is a
// directory, a content that begins with "-> " makes a symbolic link.
func repo(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		p := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		switch target, link := strings.CutPrefix(content, "-> "); {
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(p, 0o755))
		case link:
			must(t, os.Symlink(target, p))
		default:
			must(t, os.WriteFile(p, []byte(content), 0o644))
		}
	}
	return root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// decode reads JSON into plain values.
func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, data)
	}
	return m
}

// keys wants exactly these keys at the top.
func keys(t *testing.T, m map[string]any, want string) {
	t.Helper()
	for _, k := range strings.Fields(want) {
		if _, ok := m[k]; !ok {
			t.Errorf("key %q is missing", k)
		}
	}
	if len(m) != len(strings.Fields(want)) {
		t.Errorf("keys are %v, want %s", m, want)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
