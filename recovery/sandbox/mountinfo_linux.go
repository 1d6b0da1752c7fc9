package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mounted is one line of /proc/self/mountinfo.
type mounted struct {
	device string // major:minor of the file system
	root   string // what of the file system is mounted
	at     string // where
}

type mountTable []mounted

// mounts are those of this process.
func mounts() (mountTable, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("looking for other mounts of the same files: %w", err)
	}
	return parseMounts(string(text)), nil
}

func parseMounts(text string) mountTable {
	var table mountTable
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) > 5 {
			table = append(table, mounted{device: f[2], root: unescape(f[3]), at: unescape(f[4])})
		}
	}
	return table
}

// unescape undoes what the kernel does to blanks, line ends and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// aliases are the other paths by which path, or something in it, may be reached: the same file system, or a part of it,
// may be mounted twice. Whether another mount hides them is for the caller to see.
func (t mountTable) aliases(path string) (whole, parts []string) {
	own, ok := t.of(path)
	if !ok {
		return nil, nil
	}
	inside := filepath.Join(own.root, strings.TrimPrefix(path, own.at))
	for _, m := range t {
		switch {
		case m.device != own.device:
		case under(inside, m.root):
			rel, err := filepath.Rel(m.root, inside)
			if at := filepath.Join(m.at, rel); err == nil && at != path && !slices.Contains(whole, at) {
				whole = append(whole, at)
			}
		case under(m.root, inside) && !under(m.at, path):
			if top, _ := t.of(m.at); top == m && !slices.Contains(parts, m.at) {
				parts = append(parts, m.at)
			}
		}
	}
	return whole, parts
}

// of is the mount that path lies in: the one mounted last of those with the longest path.
func (t mountTable) of(path string) (best mounted, ok bool) {
	for _, m := range t {
		if under(path, m.at) && (!ok || len(m.at) >= len(best.at)) {
			best, ok = m, true
		}
	}
	return best, ok
}

// has reports whether something is mounted at path, which keeps it there.
func (t mountTable) has(path string) bool {
	return slices.ContainsFunc(t, func(m mounted) bool { return m.at == path })
}

func same(a, b string) bool {
	x, err1 := os.Lstat(a)
	y, err2 := os.Lstat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
