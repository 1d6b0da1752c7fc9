package effects

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
)

// testPath matches the paths of files that hold tests, or what tests compare with, in the conventions of the usual
// languages and test runners.
var testPath = pattern.Lazy(`(?i:(^|/)(tests?|specs?|__tests__|__snapshots__|testdata|e2e|features)/)` +
	`|(?i:(^|[/._-])(tests?|specs?|conftest)[._-][^/]*$)` + // test_a.py, a_test.go, a.test.ts, conftest.py
	`|(Tests?|TestCase|Spec|IT)\.(java|kt|kts|scala|groovy|cs|fs|vb|swift|php|m|mm|cpp|cc)$` +
	`|(^|/)Test[A-Z][^/]*\.(java|kt|scala|groovy)$` +
	`|\.(bats|t|feature|snap)$`)

// inTheSource has the languages whose tests lie beside the code, with the texts of which one begins a test.
var inTheSource = map[string][]string{".rs": {"#[test]", "#[cfg(test)]", "::test]", "#[rstest]", "```"}, ".zig": {"test \"", "test {"}, ".d": {"unittest"}}

// holdsTests reports whether a path of the work tree is that of a test file, or whether its file holds tests beside the
// code.
func (t *Tree) holdsTests(file string) bool {
	if testPath().MatchString(file) {
		return true
	}
	marks := inTheSource[path.Ext(file)]
	if marks == nil {
		return false
	}
	data, err := door.Read(filepath.Join(t.Repo.Top, file), door.MaxReport)
	for _, mark := range marks {
		if err == nil && strings.Contains(string(data), mark) {
			return true
		}
	}
	return false
}
