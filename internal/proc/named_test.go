package proc

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// Only processes whose files would belong to the user count, and of those the ones that may not be looked at, too.
func TestWorksIn(t *testing.T) {
	t.Parallel()
	name, err := os.ReadFile("/proc/1/comm")
	if err != nil {
		t.Skipf("this system has no /proc: %v", err)
	}
	first, self, dir := strings.TrimSpace(string(name)), os.Args[0][strings.LastIndexByte(os.Args[0], '/')+1:], t.TempDir()
	self = self[:min(len(self), 15)] // as the kernel keeps it
	info, err := os.Stat("/proc/1")
	if err != nil {
		t.Fatal(err)
	}
	_, unseen := os.ReadDir("/proc/1/fd")
	owner, me := info.Sys().(*syscall.Stat_t).Uid, uint32(os.Geteuid())
	file, err := os.Create(dir + "/open")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		prefix string
		uid    uint32
		want   bool
	}{{first, owner, unseen != nil}, {first, owner + 1, false}, {self, me, true}, {self, me + 1, false}, {"no-such-program", me, false}} {
		if got := WorksIn(c.prefix, c.uid, dir); got != c.want {
			t.Errorf("a process %q of user %d: %t", c.prefix, c.uid, got)
		}
	}
}
