package local

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Without Main a program would be started again as itself, and again.
func TestRunWantsMain(t *testing.T) {
	t.Parallel()
	if os.Getenv(noMain) != "" {
		_, err := Run(t.Context(), Options{})
		wantError(t, err, "local.Main()", "main")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRunWantsMain$", "-test.v")
	cmd.Env = append(os.Environ(), noMain+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestRunWantsMain") {
		t.Errorf("%v\n%s", err, out)
	}
}
