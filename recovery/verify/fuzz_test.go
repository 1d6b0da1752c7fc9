package verify

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzBatch: each line that is not blank gets one answer, which is one line of JSON with the id of its question.
func FuzzBatch(f *testing.F) {
	testkit.Seed(f, []byte(`{"id":1,"tool":"npm","exit_code":1,"signal":9,"stderr":"unknown option","fallbacks":[{"args":"--help","stdout":"usage: npm"},{"args":["-h"]}]}
{"id":"a","command":"go version","stdout":"go version go1.26"}

[]
{"id":{"a":[1]},"exit_code":"x"}
`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		testkit.Memory(t, 4*len(data), func() {
			if err := Batch(bytes.NewReader(data), &out); err != nil {
				t.Fatal(err)
			}
		})
		asked := 0
		for line := range bytes.Lines(data) {
			if len(bytes.TrimSpace(line)) > 0 {
				asked++
			}
		}
		answers := bytes.SplitAfter(out.Bytes(), []byte("\n"))
		if len(answers)-1 != asked {
			t.Fatalf("%d questions, %d answers", asked, len(answers)-1)
		}
		for _, line := range answers[:asked] {
			var answer map[string]json.RawMessage
			if err := json.Unmarshal(line, &answer); err != nil || answer["id"] == nil || answer["repairable"] == nil && answer["error"] == nil {
				t.Fatalf("the answer %q: %v", line, err)
			}
		}
	})
}
