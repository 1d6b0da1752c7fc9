package failures

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/failures"
)

// TestTheWorkedExample: a role has failed twice for a path of agent_library that is wrong. A look at the project finds
// the right one, so the cause is the code, and the implementer is told what to correct, and where.
//
// Conforms: 003-c4-example
func TestTheWorkedExample(t *testing.T) {
	t.Parallel()
	const wrong, right = "docs/agent_library/roles/guide.md", "docs/agents/roles/guide.md"
	for name, c := range map[string]struct {
		there []string // files of the project
		sure  bool
	}{
		"it lies elsewhere":          {[]string{right, "docs/agents/guide.md"}, true},
		"it is nowhere":              {nil, false},
		"two may be meant":           {[]string{right, "copies/agents/roles/guide.md"}, false},
		"it is there by now":         {[]string{right, wrong}, false},
		"it lies in a package only":  {[]string{"node_modules/x/roles/guide.md"}, false},
		"it is of another directory": {[]string{".git/roles/guide.md"}, false},
	} {
		w := newFailuresWorld(t)
		for _, f := range c.there {
			path := filepath.Join(w.Repo.Top, f)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			w.write(path, "x")
		}
		w.roleFailed("file_not_found", failures.BlameTask, "Error: ENOENT: no such file or directory, open '"+wrong+"'\n    at assemble (src/context_assembler.js:12:3)\n")
		a := did[loop.Analysed](w, analyseRole)
		rc, _ := w.cause()
		if !c.sure {
			if a.Sure && a.Type == failures.CauseCode || rc.Rule == "wrong_path" {
				t.Errorf("%s: %+v", name, rc)
			}
			continue
		}
		if !a.Sure || a.Type != failures.CauseCode || rc.Rule != "wrong_path" || !strings.Contains(a.Instruction, "correct "+wrong+" to "+right) || a.Command != nil || a.Learned != "" {
			t.Errorf("%s: %+v\n%+v", name, a, rc)
		}
		w.said()
	}
}
