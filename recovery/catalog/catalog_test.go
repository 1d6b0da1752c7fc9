package catalog

import "testing"

// Conforms: 000-1-reuse, 000-3.1-optid, 000-3.3-optional
func TestEmbeddedIsClean(t *testing.T) {
	t.Parallel()
	c, err := Embedded()
	if err != nil {
		t.Error(err)
	}
	for _, p := range Lint(c) {
		if p.Warning {
			t.Log(p)
		} else {
			t.Error(p)
		}
	}
}
