package proc

import (
	"os"
	"strings"
)

func (id *Identity) complete() {
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		id.BootID = strings.TrimSpace(string(boot))
	}
	if s, ok := readStat(id.PID, make([]byte, 1024)); ok {
		id.StartTime = s.start
	}
	id.Namespace, _ = pidNamespace()
}

func (id Identity) running() bool {
	s, ok := readStat(id.PID, make([]byte, 1024))
	return ok && !s.dead() && (id.StartTime == 0 || id.StartTime == s.start)
}
