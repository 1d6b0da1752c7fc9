package effects

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop/worktree"
)

func TestHoldsTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"src/lib.rs": "pub fn a() {}\n\n#[cfg(test)]\nmod tests {}\n", "src/plain.rs": "pub fn a() {}\n",
		"a.zig": "test \"a\" {}\n", "b.zig": "pub fn a() void {}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree := &Tree{Host: &Host{Repo: &worktree.Repo{Top: dir}}}
	yes := `a_test.go test_a.py a_test.py tests/a.py pkg/conftest.py src/a.test.ts src/a.spec.tsx test.js src/__tests__/a.js
		spec/models/a_spec.rb ATest.java src/TestA.java ATests.cs a.bats t/a.t Tests/AppTests/A.swift a.snap testdata/a.golden
		test/a.exs features/a.feature src/lib.rs a.zig cmd/tests.rs tests/fixtures/a.json`
	no := `a.go main.py src/a.ts latest.js contest.py src/attest.go README.md package.json src/plain.rs b.zig missing.rs
		inspect.js testing.md src/fastest/a.go specification.md Latest.java`
	for name := range strings.FieldsSeq(yes) {
		if !tree.holdsTests(name) {
			t.Errorf("%s is no test file", name)
		}
	}
	for name := range strings.FieldsSeq(no) {
		if tree.holdsTests(name) {
			t.Errorf("%s is a test file", name)
		}
	}
}
