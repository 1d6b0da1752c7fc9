package preflight

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/recovery/failures"
)

func TestNamesakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"docs/agents/library/guide.md", "config/app.yml", "a/x/index.js", "b/x/index.js", "c/y/index.js", "node_modules/p/only.js", ".cache/hid.txt", "there/it.txt", "other/it.txt"} {
		write(f)
	}
	for path, want := range map[string]string{
		"docs/agent_library/guide.md":      "docs/agents/library/guide.md",
		"./conf/app.yml":                   "config/app.yml",
		filepath.Join(dir, "conf/app.yml"): "config/app.yml",
		"z/y/index.js":                     "c/y/index.js", // it shares a directory, the others do not
		"z/x/index.js":                     "",             // two are as near
		"z/index.js":                       "",
		"src/only.js":                      "", // a package's
		"src/hid.txt":                      "",
		"there/it.txt":                     "", // it exists
		"src/never.txt":                    "",
		"app.yml":                          "", // a mere name is no wrong directory
		"../conf/app.yml":                  "",
		"/elsewhere/conf/app.yml":          "",
		"":                                 "",
		"conf/app.yml/deeper":              "",
		"docs/agent_library/guide.md\x00and/more/app.yml": "",
	} {
		got := Namesakes(dir, []failures.Quote{{File: path}})
		if got[path] != want || len(got) > 1 {
			t.Errorf("%q: %v, want %q", path, got, want)
		}
	}
	both := Namesakes(dir, []failures.Quote{{File: "docs/agent_library/guide.md"}, {File: "conf/app.yml"}})
	if want := map[string]string{"docs/agent_library/guide.md": "docs/agents/library/guide.md", "conf/app.yml": "config/app.yml"}; !maps.Equal(both, want) {
		t.Errorf("%v", both)
	}
	for i := range maxNamesake {
		if err := os.WriteFile(filepath.Join(dir, "other", fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := Namesakes(dir, []failures.Quote{{File: "conf/app.yml"}}); len(got) != 0 {
		t.Errorf("in a project that was not looked at as a whole: %v", got)
	}
}
