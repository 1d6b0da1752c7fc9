//go:build linux

package proc

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	self := Self()
	if self.PID != os.Getpid() || self.StartTime == 0 || self.BootID == "" || self.Host == "" || self.Namespace == 0 || self != Self() {
		t.Errorf("%+v", self)
	}
	text, err := json.Marshal(self)
	var back Identity
	if err != nil || json.Unmarshal(text, &back) != nil || back != self {
		t.Errorf("%s", text)
	}
	change := func(f func(*Identity)) Identity {
		id := self
		f(&id)
		return id
	}
	for _, c := range []struct {
		what  string
		id    Identity
		alive bool
	}{
		{"self", self, true},
		{"only a pid", Identity{PID: os.Getpid()}, true},
		{"nothing", Identity{}, false},
		{"the pid is used again", change(func(id *Identity) { id.StartTime++ }), false},
		{"before the last boot", change(func(id *Identity) { id.BootID = "00000000-0000-0000-0000-000000000000" }), false},
		{"no such pid", change(func(id *Identity) { id.PID = 1 << 30 }), false},
		{"another host: not known", change(func(id *Identity) { id.Host, id.BootID, id.PID = "elsewhere", "x", 1<<30 }), true},
		{"another PID namespace: not known", change(func(id *Identity) { id.Namespace++; id.PID = 1 << 30 }), true},
	} {
		if c.id.Alive() != c.alive {
			t.Errorf("%s: alive is %v", c.what, !c.alive)
		}
	}
}

func TestIdentityOfADeadProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := Self()
	id.PID = cmd.Process.Pid
	s, ok := readStat(id.PID, make([]byte, 1024))
	id.StartTime = s.start
	if !ok || !id.Alive() {
		t.Errorf("%+v is alive", id)
	}
	cmd.Process.Kill()
	awaitEnd(t, id.PID)
	if id.Alive() {
		t.Error("a zombie is not alive")
	}
	cmd.Wait()
	if id.Alive() {
		t.Error("it is gone")
	}
}

// A command in a PID namespace that looks at the lock of its supervisor must not think that it is dead.
func TestIdentityFromInsideThePIDNamespace(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, PIDNamespace)
	text, err := json.Marshal(Self())
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(context.Background(), Spec{
		Argv: []string{os.Args[0], "-test.run=^TestIdentityInside$", "-test.v"},
		Env:  []string{identityInside + "=" + string(text)},
	})
	if err != nil || !strings.Contains(res.Stdout.Text(), "alive true\n") {
		t.Errorf("%v %+v\n%s", err, res, res.Stdout.Text())
	}
}

const identityInside = "PROC_TEST_IDENTITY"

// TestIdentityInside is the inner half of the test above.
func TestIdentityInside(t *testing.T) {
	if text := os.Getenv(identityInside); text != "" {
		var id Identity
		if err := json.Unmarshal([]byte(text), &id); err != nil {
			t.Fatal(err)
		}
		word := map[bool]string{true: "true", false: "false"}[id.Alive()]
		os.Stdout.WriteString("alive " + word + "\n")
	}
}
