package main

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/sandbox"
)

// TestShimIsEarly watches what recovery/sandbox/early.go and internal/proc/early.go rely on: their packages are
// initialised before those that take their time. If this fails nothing is wrong
// but the speed: see what they have come to import.
func TestShimIsEarly(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no sandbox helper runs on this system, so its start cannot be measured")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range []string{sandbox.ShimArg, proc.SpawnerArg} {
		// Started by hand the helper says so and ends, before the heavy packages.
		cmd := exec.Command(exe, arg)
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		var trace strings.Builder
		cmd.Stderr = &trace
		if err := cmd.Run(); err == nil {
			t.Errorf("%s works by hand", arg)
		}
		var inits []string
		for s := bufio.NewScanner(strings.NewReader(trace.String())); s.Scan(); {
			if f := strings.Fields(s.Text()); len(f) > 1 && f[0] == "init" {
				inits = append(inits, f[1])
			}
		}
		all := " " + strings.Join(inits, " ") + " "
		if len(inits) == 0 || !strings.Contains(trace.String(), arg+" is started by superloop itself") {
			t.Fatalf("%s: no trace: %q", arg, trace.String())
		}
		for _, heavy := range []string{"jsonschema", "superloop/roles/agent ", " regexp "} {
			if strings.Contains(all, heavy) {
				t.Errorf("%s is initialised before %s has its turn: %s", heavy, arg, all)
			}
		}
	}
}
