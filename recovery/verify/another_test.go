package verify

import (
	"encoding/json"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// What a program writes never proves that another tool works, which a wrapper, a shim or a missing plugin has not
// reached: the outputs of all recorded programs, under the name of a tool that is not theirs.
func TestAnotherProgram(t *testing.T) {
	t.Parallel()
	all, fooled := 0, 0
	for i, line := range recordings(t, "found.jsonl.gz") {
		if i%testkit.Sample(4, 1, 1) != 0 {
			continue
		}
		var l label
		var in batchIn
		if json.Unmarshal(line, &l) != nil || json.Unmarshal(line, &in) != nil {
			t.Fatal(string(line))
		}
		for _, as := range []struct{ tool, command string }{
			{"zqx", "zqx --version"},
			{in.Tool + "-zqx", in.Tool + "-zqx --version"},
			{in.Tool, in.Tool + " zqx --version"},
			{"zqx", "python3 -m zqx --version"},
		} {
			other := in
			other.Tool, other.Command = as.tool, as.command
			out, err := other.judge()
			if err != nil {
				continue // the name has characters of a shell
			}
			all++
			if out.Repairable && findWord(out.Why, baseName(in.Tool)) >= 0 {
				fooled++
				t.Logf("%s: %s: %s %+v", as.command, l.ID, out.Why, out.Repaired)
			}
		}
	}
	if fooled > 0 {
		t.Errorf("%d of %d outputs of another program count as proof", fooled, all)
	}
}
