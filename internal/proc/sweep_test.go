//go:build linux

package proc

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, Subreaper)
	tap, ready := said("ready")
	spec := script("trap '' TERM; " + brood) // else the Spawner ends the others as soon as the first one is killed
	spec.Stdout = tap
	done := make(chan Result, 1)
	go func() {
		res, _ := s.Run(context.Background(), spec)
		done <- res
	}()
	<-ready
	awaitBrood(t, spec.Marker)
	key, _, _ := strings.Cut(spec.Marker, "=")
	for _, other := range []string{"", "=", key, key + "=", "=1", spec.Marker[:len(spec.Marker)-1], spec.Marker + "1", "X" + spec.Marker, "a\x00" + spec.Marker} {
		if got := Sweep(other); len(got) > 0 {
			t.Errorf("%q: killed %v", other, got)
		}
	}
	got := Sweep(spec.Marker)
	if len(got) != 3 || !slices.IsSorted(got) {
		t.Errorf("killed %v", got)
	}
	nothingLeft(t, spec.Marker)
	if res := <-done; res.Signal != "SIGKILL" {
		t.Errorf("%+v", res)
	}
	if got := Sweep(spec.Marker); len(got) != 0 {
		t.Errorf("killed again: %v", got)
	}
}

// The sweeper and what is above it may carry the marker: a supervisor that runs inside the tree of another one.
func TestSweepSparesItselfAndItsAncestors(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, Subreaper)
	spec := script("sleep 1000 & " + quote(os.Args[0]) + ` -test.run='^TestSweepHere$' -test.v; exit 5`)
	spec.Env = append(spec.Env, sweepHere+"="+spec.Marker)
	res := mustRun(t, s, spec)
	if res.Code != 5 || !strings.Contains(res.Stdout.Text(), "swept 1\n") || res.LeftBehind != 0 {
		t.Errorf("%+v\n%s", res, res.Stdout.Text())
	}
}

const sweepHere = "PROC_TEST_SWEEP"

// TestSweepHere is the inner half of the test above.
func TestSweepHere(t *testing.T) {
	if mark := os.Getenv(sweepHere); mark != "" {
		os.Stdout.WriteString("swept " + string('0'+rune(len(Sweep(mark)))) + "\n")
	}
}
