package render

import (
	"bytes"
	"testing"
)

func TestChains(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	err := Chains(&b, []ChainLine{
		{ID: "20260101T000000.000-0a0b0c0d", Status: "done", Command: "npm test", Depth: 1, Attempts: 2},
		{ID: "20260102T000000.000-0a0b0c0d", Status: "open", Held: true, Command: "make \x1b[31mall", Depth: 2, Attempts: 1},
		{ID: "20260103T000000.000-0a0b0c0d", Error: "it was cut"},
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "chains", b.String())
	b.Reset()
	if err := Chains(&b, nil); err != nil || b.String() != "there is no chain\n" {
		t.Errorf("no chains are listed as %q, %v", b.String(), err)
	}
}
