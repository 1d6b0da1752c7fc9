package classify

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A file system with fewer free bytes or inodes than these counts as full.
const (
	lowBytes  = 4 << 20
	lowInodes = 16
)

// freeSpace looks at the file system of a path that a tool has named. Without a path it looks at those on which
// commands mostly write: of dir, of temporary files, of the home directory. Of a full one it names the directory on
// which it is mounted (also as Value) and what takes the most room there.
func freeSpace(path, dir string) Finding {
	places := []string{path}
	if path == "" {
		home, _ := os.UserHomeDir() // "" is passed over
		places = []string{dir, os.TempDir(), home, "/var/tmp", "/dev/shm"}
	}
	var first Finding
	for _, p := range places {
		at := nearestDir(p)
		var st unix.Statfs_t
		if at == "" || unix.Statfs(at, &st) != nil || st.Blocks == 0 {
			continue
		}
		free := st.Bavail * uint64(st.Bsize)
		if free < lowBytes || st.Files > 0 && st.Ffree < lowInodes {
			mount := mountOf(at)
			return Finding{Holds: No, Value: mount, Detail: fmt.Sprintf("the file system on %s has %d MiB and %d inodes free of %d MiB%s",
				mount, free>>20, st.Ffree, st.Blocks*uint64(st.Bsize)>>20, largest(mount))}
		}
		if first.Holds == "" {
			first = Finding{Holds: Yes, Value: strconv.FormatUint(free, 10), Detail: fmt.Sprintf("%d MiB and %d inodes are free", free>>20, st.Ffree)}
		}
	}
	return first
}

// device returns the device of a path, or 0.
func device(path string) uint64 {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return 0
	}
	return uint64(st.Dev) //nolint:unconvert // 32 bits on some systems
}

// mountOf returns the highest directory above path on the same file system.
func mountOf(path string) string {
	dev := device(path)
	for up := filepath.Dir(path); up != path && device(up) == dev; up = filepath.Dir(path) {
		path = up
	}
	return path
}

// OnFileSystem reports whether a path, or the nearest directory above it that exists, lies on the file system that is
// mounted on a directory. A path may begin with "~/".
func OnFileSystem(path, mount string) bool {
	return device(nearestDir(place("/", path))) == device(mount)
}

// The bounds of a search for what fills a file system.
const (
	maxLooked  = 30_000 // files and directories
	maxNamed   = 3
	worthwhile = 1 << 20 // bytes
)

// largest names what takes the most room on the file system of a directory: the entries of the directory, or of the one
// below it that has nearly all. It looks at maxLooked files at most.
func largest(mount string) string {
	dev, looked := device(mount), 0
	type entry struct {
		path string
		size int64
	}
	sizes := map[string]int64{}
	_ = filepath.WalkDir(mount, func(path string, d fs.DirEntry, err error) error {
		if looked++; looked > maxLooked {
			return fs.SkipAll
		}
		if err != nil {
			return nil // what cannot be looked at is passed over
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || uint64(st.Dev) != dev { //nolint:unconvert // 32 bits on some systems
			if d.IsDir() && path != mount {
				return fs.SkipDir
			}
			return nil
		}
		for up := path; len(up) > len(mount); up = filepath.Dir(up) {
			if strings.Count(up[len(mount):], "/") <= 3 {
				sizes[up] += st.Blocks * 512
			}
		}
		return nil
	})
	var all []entry
	for path, size := range sizes {
		if size >= worthwhile {
			all = append(all, entry{path, size})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.path, a.path)) })
	var named []entry
	for _, e := range all {
		inside := slices.ContainsFunc(all, func(o entry) bool {
			return strings.HasPrefix(o.path, e.path+"/") && 10*o.size >= 9*e.size
		})
		part := slices.ContainsFunc(named, func(n entry) bool { return strings.HasPrefix(e.path, n.path+"/") })
		if inside || part {
			continue // the entry below it says more, or the one above it says the same
		}
		if named = append(named, e); len(named) == maxNamed {
			break
		}
	}
	if len(named) == 0 {
		return ""
	}
	var text []string
	for _, e := range named {
		text = append(text, fmt.Sprintf("%s (%d MiB)", e.path, e.size>>20))
	}
	return "; the most is in " + strings.Join(text, ", ")
}
