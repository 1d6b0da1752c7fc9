package failures

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzAnswer: whatever an agent answers when it is asked for the root cause, the cause is of one of the known types, its
// confidence is a share, and it never takes a command that is no printable line.
func FuzzAnswer(f *testing.F) {
	good, err := os.ReadFile("../../schemas/testdata/valid/root-cause.config.json")
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, good, []byte("Here it is:\n```json\n"+string(good)+"\n```\n"))
	f.Add([]byte(`{"type":"` + strings.Repeat("x", 5000) + `"}`))
	f.Add([]byte(`{"type":"code","root_cause":"x","confidence":1e999,"fix":{"kind":"environment","command":"a\u001b"},"prevent":[1],"evidence":[{"line":-1},"a"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[answer]{Decode: parseAnswer}.Check(t, data)
		outputs := []Output{{"stdout", "Error: connect ECONNREFUSED 127.0.0.1:5432 in src/db.js"}}
		rc := Merge(RootCause{Type: CauseUnknown, Description: "nothing is known", Confidence: 0.1}, data, "claude", outputs, Case{})
		if !slices.Contains([]CauseType{CauseCode, CauseConfig, CauseDependency, CauseInfrastructure, CauseUnknown}, rc.Type) ||
			!(rc.Confidence >= 0 && rc.Confidence <= maxSaid) || rc.By == "claude" && len(rc.Evidence) == 0 {
			t.Fatalf("%+v", rc)
		}
		for _, q := range rc.Evidence {
			if !stands(q, quotable(outputs, Case{})) {
				t.Fatalf("a quote of nothing: %+v", q)
			}
		}
		if len(rc.Fix.Command) > maxCommand {
			t.Fatalf("a command of %d bytes", len(rc.Fix.Command))
		}
		testkit.Plain(t, rc.Fix.Command)
		for _, text := range slices.Concat(rc.Problems, rc.Others, rc.WhyChain, []string{rc.Description, rc.Location, rc.Fix.Instruction}) {
			if len(text) > 2000 {
				t.Fatalf("a text of %d bytes: %.200s...", len(text), text)
			}
		}
	})
}
