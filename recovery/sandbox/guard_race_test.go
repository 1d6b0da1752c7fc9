//go:build linux

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A place that goes between the look at what is around and the mounts costs another look, and neither the protection nor
// the start of an agent.
func TestPlacesGoBeforeTheMounts(t *testing.T) {
	t.Parallel()
	s := shieldedWorld(t, os.Getuid(), "")
	looks := 0
	around := func() Protection {
		looks++
		held := filepath.Join(s.home, "held")
		if err := os.WriteFile(held, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		p := Protection{ReadOnly: []string{held}}
		if looks%2 == 1 {
			p.ReadOnly = append(p.ReadOnly, filepath.Join(s.home, "gone"))
		}
		return p
	}
	p := s.protection()
	p.Around = around
	g, rep := Protect(context.Background(), s.spawner, p)
	if rep.Level != ProtectMount || strings.Contains(strings.Join(rep.Notes, " "), "is not protected") || looks != 2 {
		t.Fatalf("%+v after %d looks", rep, looks)
	}
	for range 2 {
		if err := os.Rename(filepath.Join(s.home, "held"), filepath.Join(s.home, "old")); err != nil {
			t.Fatal(err)
		}
		a := s.agent(`echo x > ~/held || echo held`)
		a.Env = append(a.Env, "HOME="+s.home)
		if res, err := g.Run(context.Background(), a.spec()); err != nil || res.Err != nil || res.Stdout.Text() != "held\n" {
			t.Errorf("%v %v %q", err, res.Err, res.Stdout.Text())
		}
	}
}
