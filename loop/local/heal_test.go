package local

import (
	"strings"
	"testing"

	"github.com/superloop/superloop/loop"
)

// T-8: a repository that a power cut damaged ends no run, and the journal says what was healed.
func TestADamagedRepositoryIsHealed(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"index": "index", "HEAD": "HEAD"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, agentDone, ``)
			w.write("repo/.git/"+file, "")
			w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
			got := w.one("repository_healed")
			if did, _ := got["did"].(string); !strings.Contains(did, name) {
				t.Errorf("did %v", got)
			}
			if kept, ok := got["kept_in"].(string); name == "index" && (!ok || !strings.HasPrefix(kept, ".git/superloop-damaged/")) {
				t.Errorf("kept %v", got)
			}
		})
	}
}
