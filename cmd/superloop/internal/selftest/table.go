package selftest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// process is one that runs now.
type process struct {
	pid  int
	name string // the last element of its program
	args []byte // NUL between them
}

// processes are those of this user, or all for root. ok is false where the
// system has no /proc.
func processes() (list []process, ok bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(args) == 0 {
			continue // it has gone, or is a zombie or a part of the kernel
		}
		program, _, _ := bytes.Cut(args, []byte{0})
		list = append(list, process{pid: pid, name: filepath.Base(string(program)), args: args})
	}
	return list, len(list) > 0
}

// marked: the process has the entry (KEY=value) in its environment.
func (p process) marked(entry string) bool {
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "environ"))
	if err != nil {
		return false // it has gone
	}
	return bytes.Contains(append([]byte{0}, append(environ, 0)...), []byte("\x00"+entry+"\x00"))
}

func (p process) String() string { return p.name + " (" + strconv.Itoa(p.pid) + ")" }

// leftOf are the processes that have the marker in their environment or the
// number of seconds among their arguments, but self.
func leftOf(marker, nap string, self int) (left []string, ok bool) {
	list, ok := processes()
	for _, p := range list {
		if p.pid != self && (p.marked(marker) || nap != "" && strings.Contains(string(p.args), nap)) {
			left = append(left, p.String())
		}
	}
	return left, ok
}
