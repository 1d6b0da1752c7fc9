package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/durable"
)

// machine is a machine of a fleet, with a private state of its own. Nobody answers at the address of its server.
type machine struct {
	t     *testing.T
	state string
}

func (m machine) run(args ...string) (string, error) {
	m.t.Helper()
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out, disk: durable.OS(), env: func(name string) string {
		if name == "XDG_STATE_HOME" {
			return m.state
		}
		return ""
	}}
	err := a.cli().RunContext(m.t.Context(), append([]string{"superloop-fleet"}, args...))
	return out.String(), err
}

func (m machine) fleet() (f fleet) {
	m.t.Helper()
	path := filepath.Join(m.state, "superloop", "fleet", "fleet.json")
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	info, serr := os.Stat(path)
	if err != nil || serr != nil || info.Mode().Perm() != 0o600 {
		m.t.Fatal(err, serr)
	}
	return f
}

// TestJoin: an invitation carries the keys of the payloads and who may decide, and not the key that decides.
func TestJoin(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	first, second := machine{t, t.TempDir()}, machine{t, t.TempDir()}
	wants := func(m machine, text string, args ...string) {
		t.Helper()
		if out, err := m.run(args...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	wants(first, "superloop-fleet --help", "strat")
	wants(first, "superloop-fleet init", "list")
	if _, err := first.run("init", "--fleet", "shop"); err != nil {
		t.Fatal(err)
	}
	wants(first, "in a fleet already", "init")
	for _, verb := range []string{"list", "accounts"} {
		wants(first, "no Temporal server answers at 127.0.0.1:1", verb)
	}
	for _, flag := range [][]string{{"--slots", "0"}, {"--max-roles-per-account", "-1"}, {"--beat-timeout", "0s"}} {
		wants(first, "superloop-fleet worker --help", append([]string{"worker"}, flag...)...)
	}
	invitation, err := first.run("invite")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "invitation")
	for _, bad := range []string{"", "{", "{}", `{"fleet": "x"}`} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		wants(second, "reading the invitation", "init", "--join", file)
	}
	if err := os.WriteFile(file, []byte(invitation), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := second.run("init", "--join", file); err != nil {
		t.Fatal(err)
	}
	a, b := first.fleet(), second.fleet()
	if a.Gateway == nil || b.Gateway != nil || a.Machine == b.Machine || b.Machine == "" || b.Fleet != "shop" || !bytes.Equal(a.Gateways[0], b.Gateways[0]) ||
		!bytes.Equal(a.Payloads.All[a.Payloads.Write], b.Payloads.All[b.Payloads.Write]) || strings.Contains(invitation, a.Machine) {
		t.Errorf("%+v\n%+v", a, b)
	}
	if err := os.WriteFile(filepath.Join(first.state, "superloop", "fleet", "fleet.json"), []byte(`{"fleet": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(first, "fleet.json", "list")
}
