package stats

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/superloop/superloop/loop/journal"
)

// Repaired and failed checks of installed tools are counted, in one journal and
// over several; a saved time that nobody can have saved is not taken.
// Conforms: 001-scope-telemetry, 001-p4-success, 001-p4-saved, 001-cons-cost
func TestVerifiedTools(t *testing.T) {
	t.Parallel()
	fold := New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, e := range []struct{ event, fields string }{
		{"loop_start", `{}`},
		{"verify_self_repaired", `{"tool":"jq","time_saved_ms":4000}`},
		{"verify_self_repaired", `{"tool":"fd","time_saved_ms":-7}`},
		{"verify_self_repaired", `{"tool":"rg","time_saved_ms":"soon"}`},
		{"verify_self_repair_failed", `{"tool":"go","time_saved_ms":900}`},
	} {
		if err := fold.Add(journal.Event{Seq: int64(i + 1), Timestamp: at, Event: e.event, LoopID: "one", RunID: "r", Iteration: 1, Fields: json.RawMessage(e.fields)}); err != nil {
			t.Fatal(err)
		}
	}
	one := Merge(fold).Remediation
	if one.VerifyRepaired != 3 || one.VerifyFailed != 1 || one.VerifySavedMS != 4000 {
		t.Errorf("%+v", one)
	}
	two := Merge(fold, fold).Remediation
	if two.VerifyRepaired != 6 || two.VerifyFailed != 2 || two.VerifySavedMS != 8000 {
		t.Errorf("%+v", two)
	}
}
