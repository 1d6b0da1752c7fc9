//go:build linux

package proc

import (
	"encoding/json"
	"os"
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
}
