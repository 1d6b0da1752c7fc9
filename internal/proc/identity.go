package proc

import "os"

// Identity names one process for as long as anyone may ask whether it still lives: a pid alone is used again.
type Identity struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time,omitempty"` // clock ticks from boot to its start; 0 if the system does not tell
	BootID    string `json:"boot_id,omitempty"`    // of the boot it runs in; "" if the system does not tell
	Host      string `json:"host,omitempty"`
	// Namespace is the PID namespace in which PID means something; 0 if the system has none.
	Namespace uint64 `json:"pid_namespace,omitempty"`
}

// Self is the identity of this process.
func Self() Identity {
	host, _ := os.Hostname()
	id := Identity{PID: os.Getpid(), Host: host}
	id.complete()
	return id
}

// Alive reports whether the process still runs. It is false only when that is certain: another host, or a PID namespace that
// is not ours (we may be the command of a supervisor, looking at it from inside), cannot be looked into, so
// what is there counts as alive. A lock that the kernel holds is better evidence than this.
func (id Identity) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	self := Self()
	if id.Host != "" && self.Host != "" && id.Host != self.Host {
		return true
	}
	if id.BootID != "" && self.BootID != "" && id.BootID != self.BootID {
		return false
	}
	if id.Namespace != 0 && self.Namespace != 0 && id.Namespace != self.Namespace {
		return true
	}
	return id.running()
}
