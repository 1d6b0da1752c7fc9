package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/superloop/superloop/server/slots"
)

// The service has the program, the places and the PATH of whoever installs it, whatever characters are in them.
func TestServices(t *testing.T) {
	t.Parallel()
	a := &app{env: func(string) string { return `/usr/bin:/opt/a "b" 100%` }}
	s := a.serviceOf("/bin/true", slots.Limits{Loops: 4, Roles: 3, PerAccount: 2}, 10*time.Minute)
	for name, want := range map[string][]string{
		unit: {`ExecStart="/bin/true" "serve" "--max-parallel-loops=4" "--max-parallel-roles=3" "--max-roles-per-account=2" "--drain=10m0s"` + "\n",
			`Environment="PATH=/usr/bin:/opt/a \"b\" 100%%"` + "\n", "Type=notify\n", "KillMode=mixed\n", "Delegate=yes\n", "WatchdogSec="},
		plist: {"<string>/bin/true</string><string>serve</string><string>--max-parallel-loops=4</string>", "<string>/usr/bin:/opt/a &#34;b&#34; 100%</string>"},
	} {
		var b strings.Builder
		if err := template.Must(template.New("service").Parse(name)).Execute(&b, s); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(b.String(), text) {
				t.Errorf("%q is not in\n%s", text, b.String())
			}
		}
		if name == unit {
			verifyUnit(t, b.String())
		}
	}
}

// verifyUnit lets systemd read a unit, where it is installed.
func verifyUnit(t *testing.T, text string) {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: systemd has not read the unit")
		return
	}
	file := filepath.Join(t.TempDir(), "superloop.service")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--user", "verify", file)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), file) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
