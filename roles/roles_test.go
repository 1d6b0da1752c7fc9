package roles

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/superloop/superloop/schemas"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, role := range All() {
		text, err := Load(filepath.Join(dir, "absent"), role)
		if err != nil || !strings.HasPrefix(text, "# Role: "+role+"\n") {
			t.Errorf("%s: error %v, begins %.30q", role, err, text)
		}
	}
	write(t, filepath.Join(dir, "planner.md"), "my planner\r\n")
	if text, err := Load(dir, Planner); err != nil || text != "my planner\r\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Symlink("planner.md", filepath.Join(dir, "tester.md")); err != nil {
		t.Fatal(err)
	}
	if text, err := Load(dir, Tester); err != nil || text != "my planner\r\n" {
		t.Errorf("an owner's link is not followed: %q, %v", text, err)
	}
	if _, err := Load(dir, "../planner"); err == nil || !strings.Contains(err.Error(), "unknown role") {
		t.Errorf("role with a path: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		make func(path string) error
		want string
	}{
		"empty":         {func(p string) error { return os.WriteFile(p, nil, 0o644) }, "is empty"},
		"blank":         {func(p string) error { return os.WriteFile(p, []byte(" \n\t\n"), 0o644) }, "is empty"},
		"not UTF-8":     {func(p string) error { return os.WriteFile(p, []byte("caf\xe9"), 0o644) }, "is not UTF-8"},
		"NUL":           {func(p string) error { return os.WriteFile(p, []byte("a\x00b"), 0o644) }, "NUL"},
		"huge":          {func(p string) error { return os.WriteFile(p, make([]byte, MaxTemplate+1), 0o644) }, "larger than"},
		"directory":     {func(p string) error { return os.Mkdir(p, 0o755) }, "not a regular file"},
		"pipe":          {func(p string) error { return syscall.Mkfifo(p, 0o644) }, "not a regular file"},
		"dangling link": {func(p string) error { return os.Symlink("nowhere", p) }, "cannot be read"},
	}
	if os.Geteuid() != 0 {
		cases["unreadable"] = struct {
			make func(path string) error
			want string
		}{func(p string) error { return os.WriteFile(p, []byte("x"), 0) }, "cannot be read"}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "reviewer.md")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			_, err := Load(filepath.Dir(path), Reviewer)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete it") {
				t.Errorf("error %v, want %q, the path and the way out", err, c.want)
			}
		})
	}
}

// The words that the published design requires of the tester's prompt, and the
// limits that every role is told.
// Conforms: 004-flow-report, 004-1-file, 004-4-section, 004-4-category, 004-4-evidence, 004-4-propose, 004-p1.2
func TestEmbeddedPromptsSayWhatTheyMust(t *testing.T) {
	t.Parallel()
	need := map[string][]string{
		Planner:     {"The plan", "PHASE_1.MD", "Last message"},
		Implementer: {"The report", "no stubs", "Last message"},
		Tester: {
			"## Infrastructure Analysis", "`dependency`, `config`, `environment`, `permissions`, `network`", "`file:line", "DO propose", "Do NOT propose",
			`"version": 1`, `"error_pattern"`, `"root_cause"`, `"evidence"`, `"expected_outcome"`, `"confidence"`, `"fallback"`, `"severity"`,
			"`high`", "`medium`", "`low`", "Last message",
		},
		Reviewer: {"High, Medium, Low", "`commit`", "promise", "Last message"},
	}
	for role, words := range need {
		text := mustRender(t, firstTurn(t, role))
		words = append(words, ".superloop/config.json", "events.jsonl", "Never claim that a gate passed", "no installing")
		file, _ := Deliverable(role)
		words = append(words, filepath.Join(loopDir, file))
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("prompt of %s does not say %q", role, w)
			}
		}
	}
	text := mustRender(t, firstTurn(t, Tester))
	if !strings.Contains(text, loopDir+"/recovery.json") {
		t.Error("the tester is not told where recovery.json goes")
	}
	_, rest, _ := strings.Cut(text, "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	for _, p := range schemas.Validate(schemas.Recovery, []byte(example)) {
		t.Errorf("the example of recovery.json that the tester is shown is not valid: %v", p)
	}
}
