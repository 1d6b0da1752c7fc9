// Package steering knows what steers other programs of a user: the files that shells and tools read or execute when
// they begin, the directories of programs on PATH, and the sockets of services that start programs. At level L1 agents
// cannot write the former and do not see the latter.
//
// The list is data, with a reason for each entry: package places. docs/protection.md shows it.
//
//	places, PATH, protect.paths --> Survey: what is there now --> Keeper: keeps missing names free --> sandbox.Protect
//	              protect.allow -----^
//
// A file or directory that exists becomes a read-only mount, at its real path. So does each symbolic link on the way to
// it: the link itself becomes a mount point, which cannot be renamed or removed. A missing name is kept free by a
// symbolic link that leads nowhere (see Free), under a mount of its own. Programs find nothing there, as before, and no
// process can make anything there. The Keeper removes these links when the last supervisor of the home directory ends.
package steering

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/recovery/places"
)

// pathID is the name in protect.allow for the directories of PATH and the programs in them, extraID the name of the
// places in protect.paths.
const (
	pathID  = "path"
	extraID = "protect.paths"
)

// IDs returns the names that protect.allow accepts besides paths.
func IDs() []string {
	ids := []string{pathID}
	for _, e := range places.Entries() {
		ids = append(ids, e.ID)
	}
	return ids
}

// lookup returns the last value of a variable in an environment in the form of os.Environ.
func lookup(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// expand returns the absolute paths that a word of the list, or of the configuration, means. It returns none if the
// word needs a variable that gives no absolute path.
func expand(word, home string, env []string) []string {
	uid := strconv.Itoa(os.Getuid())
	switch {
	case word == "~" || strings.HasPrefix(word, "~/"):
		if !filepath.IsAbs(home) {
			return nil
		}
		return []string{filepath.Join(home, strings.TrimPrefix(word[1:], "/"))}
	case strings.HasPrefix(word, "$"):
		name, rest, _ := strings.Cut(word[1:], "/")
		value, _, _ := strings.Cut(lookup(env, name), ",") // TMUX goes on after a comma
		if address, ok := strings.CutPrefix(value, "unix:"); ok {
			value = strings.TrimPrefix(address, "//")
		}
		if strings.Contains(value, "://") {
			return nil // an address of another kind
		}
		var list []string
		for _, v := range filepath.SplitList(value) {
			if filepath.IsAbs(v) {
				list = append(list, filepath.Join(v, rest))
			}
		}
		return list
	case !filepath.IsAbs(word):
		return nil
	}
	return []string{filepath.Clean(strings.ReplaceAll(word, "$UID", uid))}
}

// under reports whether path is dir or lies below it. Both paths are absolute and clean.
func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// within reports whether path is one of dirs or lies below one.
func within(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return under(path, dir) })
}

// contains reports whether one of paths is dir or lies below it.
func contains(dir string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return under(path, dir) })
}
