package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// WorksIn reports whether a live process of a user, with a program name that begins with prefix, may work in one of the
// directories: its working directory or an open file lies below it, or this process may not look. Without /proc it
// returns true.
func WorksIn(prefix string, uid uint32, dirs ...string) bool {
	all := processes()
	for _, s := range all {
		at := "/proc/" + strconv.Itoa(s.pid)
		name, err := os.ReadFile(at + "/comm")
		if err != nil || s.dead() || !strings.HasPrefix(string(name), prefix) || !writesAs(at, uid) {
			continue
		}
		links, err := os.ReadDir(at + "/fd")
		if os.IsPermission(err) {
			return true
		}
		paths := []string{at + "/cwd"}
		for _, l := range links {
			paths = append(paths, filepath.Join(at, "fd", l.Name()))
		}
		for _, p := range paths {
			to, err := os.Readlink(p)
			for _, dir := range dirs {
				if err == nil && strings.HasPrefix(to+"/", dir+"/") {
					return true
				}
			}
		}
	}
	return len(all) == 0
}

// writesAs reports whether the files that a process makes belong to a user. It returns true if the process does not say.
func writesAs(at string, uid uint32) bool {
	status, _ := os.ReadFile(at + "/status") // empty if the process has ended
	_, ids, ok := strings.Cut(string(status), "\nUid:")
	ids, _, _ = strings.Cut(ids, "\n")
	fields := strings.Fields(ids) // real, effective, saved, and for files
	return !ok || len(fields) != 4 || fields[3] == strconv.FormatUint(uint64(uid), 10)
}
