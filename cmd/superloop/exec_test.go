package main

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/sandbox"
)

// The shim is this test binary, which holds all that superloop holds. Compare
// with the plain bash of the same run.
func BenchmarkExec(b *testing.B) {
	b.Run("bash", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/bash", "--noprofile", "--norc", "-c", "true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sandbox", func(b *testing.B) {
		s, err := proc.Start(proc.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		place, err := sandbox.Resolve(b.TempDir(), "")
		if err != nil {
			b.Fatal(err)
		}
		spec := sandbox.Spec{Command: "true", Place: place, Env: sandbox.Environment(os.Environ(), nil, place.Repo, "")}
		for b.Loop() {
			if res, err := sandbox.Run(context.Background(), s, spec); err != nil || res.Code != 0 {
				b.Fatal(err, res.Err)
			}
		}
	})
}

// By hand both hidden verbs refuse, before anything else of superloop begins.
func TestHiddenVerbs(t *testing.T) {
	for _, arg := range []string{proc.SpawnerArg, sandbox.ShimArg} {
		cmd := exec.Command(os.Args[0], arg)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitUsage || len(out) == 0 {
			t.Errorf("%s: %v %q", arg, err, out)
		}
	}
}
