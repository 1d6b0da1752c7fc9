package main

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/sandbox"
)

// TestShimIsEarly watches what recovery/sandbox/early.go relies on: its package is
// initialised before those that take their time. If this fails nothing is wrong
// but the speed: see what sandbox has come to import.
func TestShimIsEarly(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no sandbox helper runs on this system, so its start cannot be measured")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Started by hand the shim says so and ends, before the heavy packages.
	cmd := exec.Command(exe, sandbox.ShimArg)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err == nil {
		t.Error("the shim works by hand")
	}
	var inits []string
	for s := bufio.NewScanner(strings.NewReader(trace.String())); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) > 1 && f[0] == "init" {
			inits = append(inits, f[1])
		}
	}
	all := " " + strings.Join(inits, " ") + " "
	if len(inits) == 0 || !strings.Contains(trace.String(), sandbox.ShimArg+" is started by superloop itself") {
		t.Fatalf("no trace: %q", trace.String())
	}
	for _, heavy := range []string{"jsonschema", "superloop/roles/agent ", " regexp "} {
		if strings.Contains(all, heavy) {
			t.Errorf("%s is initialised before the shim has its turn: %s", heavy, all)
		}
	}
}
