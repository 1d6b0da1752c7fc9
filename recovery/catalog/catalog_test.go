package catalog

import "testing"

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
