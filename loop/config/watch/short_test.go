package watch

import (
	"strings"
	"testing"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
)

func TestShort(t *testing.T) {
	t.Parallel()
	fits, long := strings.Repeat("x", maxShortValue-2), strings.Repeat("x", maxShortValue-1)
	const told = "(2049 bytes; superloop config diff shows it)"
	o := Outcome{Problems: make([]config.Problem, 41), Warnings: make([]config.Problem, 3), Changes: make([]config.Change, 41), Digest: "d",
		Diff: trust.Diff{Tightening: []trust.Change{{Change: config.Change{From: long, To: fits}}}, Loosening: make([]trust.Change, 40)}}
	o.Changes[0] = config.Change{From: fits, To: long}
	o.Changes[39] = config.Change{From: func() {}, To: 7}
	got := o.Short()
	if len(got.Problems) != 40 || len(got.Warnings) != 3 || len(got.Changes) != 40 || len(got.Diff.Loosening) != 40 || got.Digest != "d" {
		t.Errorf("%d problems, %d warnings, %d changes", len(got.Problems), len(got.Warnings), len(got.Changes))
	}
	if c := got.Changes[0]; c.From != any(fits) || c.To != any(told) {
		t.Errorf("%.60v, %.60v", c.From, c.To)
	}
	if c := got.Changes[39]; c.From != any("(0 bytes; superloop config diff shows it)") || c.To != any(7) {
		t.Errorf("%v, %v", c.From, c.To)
	}
	if c := got.Diff.Tightening[0]; c.From != any(told) || c.To != any(fits) {
		t.Errorf("%.60v, %.60v", c.From, c.To)
	}
	if o.Changes[0].To != any(long) || o.Diff.Tightening[0].From != any(long) {
		t.Error("the outcome itself was changed")
	}
	if got := (Outcome{}).Short(); got.Changes == nil || got.Diff.Loosening == nil {
		t.Error("a list without entries is null in the journal")
	}
}
