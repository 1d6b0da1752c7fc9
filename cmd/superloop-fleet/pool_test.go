package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/temporal"
)

// TestDrainOrders: an order for this machine is a file, so it holds without a server, and for the next worker. An order for another
// machine needs the key.
func TestDrainOrders(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	m := machine{t, t.TempDir()}
	a := &app{disk: durable.OS(), env: func(string) string { return m.state }}
	if _, err := m.run("drain"); err == nil || !strings.Contains(err.Error(), "superloop-fleet init") {
		t.Error(err)
	}
	if _, err := m.run("init"); err != nil {
		t.Fatal(err)
	}
	if now, err := a.drains(); now != nil || err != nil {
		t.Fatal(now, err)
	}
	began := time.Now()
	if out, err := m.run("drain", "--deadline", "1h", "--by", "ann"); err != nil || !strings.Contains(out, m.fleet().Machine) {
		t.Fatal(out, err)
	}
	if now, err := a.drains(); err != nil || now.By != "ann" || now.Deadline.Before(began.Add(time.Hour)) {
		t.Errorf("%+v %v", now, err)
	}
	for range 2 {
		if _, err := m.run("undrain"); err != nil {
			t.Fatal(err)
		}
		if now, err := a.drains(); now != nil || err != nil {
			t.Error(now, err)
		}
	}
	if err := a.putDrain(temporal.Decision{}, began); err == nil {
		t.Error("an order without a deadline is taken")
	}
	if _, err := m.run("drain", "--machine", "another"); err == nil || !strings.Contains(err.Error(), "no Temporal server answers") {
		t.Error(err)
	}
	worker := machine{t, t.TempDir()}
	invitation, _ := m.run("invite")
	file := filepath.Join(t.TempDir(), "invitation")
	if err := os.WriteFile(file, []byte(invitation), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.run("init", "--join", file); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.run("drain", "--machine", m.fleet().Machine); err == nil || !strings.Contains(err.Error(), "no key to sign an order") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(m.state, "superloop/fleet/drain.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.drains(); err == nil || !strings.Contains(err.Error(), "drain.json") {
		t.Error(err)
	}
}

// TestKeysOf: the key with which is written comes first, all machines make the same ones, and none is a key of payloads.
func TestKeysOf(t *testing.T) {
	t.Parallel()
	f := fleet{Payloads: temporal.Keys{Write: "2", All: map[string][]byte{"1": {1}, "2": {2}, "3": {3}}}}
	keys := keysOf(f)
	if len(keys) != 3 {
		t.Fatal(keys)
	}
	alone := keysOf(fleet{Payloads: temporal.Keys{Write: "2", All: map[string][]byte{"2": {2}}}})
	if !bytes.Equal(keys[0], alone[0]) || bytes.Equal(keys[1], keys[2]) || len(keys[0]) != 32 {
		t.Errorf("%x", keys)
	}
}

// TestRemoteOf: a path is the same one wherever somebody types it.
func TestRemoteOf(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{"git@h:shop.git": "git@h:shop.git", "https://h/shop.git": "https://h/shop.git", "/srv/shop.git": "/srv/shop.git"} {
		if got, err := remoteOf(remote); got != want || err != nil {
			t.Errorf("%s: %s %v", remote, got, err)
		}
	}
	if got, err := remoteOf("shop.git"); !filepath.IsAbs(got) || err != nil {
		t.Error(got, err)
	}
}
