package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/server/slots"
)

// rendered is a template of the daemon as a service, with a program and a PATH that need quoting.
func rendered(t *testing.T, text string) []byte {
	t.Helper()
	a := newApp(durable.OS(), nil, nil, nil)
	a.env = func(key string) string { return map[string]string{"PATH": `/usr/bin:/opt/a b/$x%h"q&<`}[key] }
	var b bytes.Buffer
	if err := template.Must(template.New("service").Parse(text)).Execute(&b, a.serviceOf("/opt/su per/100%/super$loop", slots.Limits{Loops: 4}, 10*time.Minute, "--listen=localhost:7717")); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestService(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		unit: `ExecStart="/opt/su per/100%%/super$$loop" "serve" "--max-parallel-loops=4" "--max-parallel-roles=0" "--max-roles-per-account=0" "--drain=10m0s" "--listen=localhost:7717"
Environment="PATH=/usr/bin:/opt/a b/$x%%h\"q&<"
`,
		plist: `<array><string>/opt/su per/100%/super$loop</string><string>serve</string><string>--max-parallel-loops=4</string><string>--max-parallel-roles=0</string><string>--max-roles-per-account=0</string><string>--drain=10m0s</string><string>--listen=localhost:7717</string></array>
  <key>EnvironmentVariables</key><dict><key>PATH</key><string>/usr/bin:/opt/a b/$x%h&#34;q&amp;&lt;</string></dict>
`,
	} {
		if got := string(rendered(t, name)); !strings.Contains(got, want) {
			t.Errorf("the service lacks\n%s\nit is\n%s", want, got)
		}
	}
}

// TestServiceVerifies lets systemd read the unit.
func TestServiceVerifies(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(durable.OS(), nil, nil, nil)
	var b bytes.Buffer
	if err := template.Must(template.New("service").Parse(unit)).Execute(&b, a.serviceOf(self, slots.Limits{}, time.Minute, "7717")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "superloop.service")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(analyze, "verify", "--man=no", file)
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), file) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
