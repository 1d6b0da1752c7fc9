package preflight

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/recovery/failures"
)

// watched returns the files of a repository whose change may be a cause of failures. It is a function so that no caller
// can change the list.
func watched() []string {
	return []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb",
		"requirements.txt", "pyproject.toml", "poetry.lock", "uv.lock", "Pipfile.lock", "go.mod", "go.sum", "Cargo.toml", "Cargo.lock",
		"Gemfile", "Gemfile.lock", "composer.lock", "Dockerfile", "docker-compose.yml", ".env", ".nvmrc", ".node-version", ".python-version",
		".tool-versions", ".npmrc", "Makefile", ".superloop/config.json"}
}

// These constants bound what Collect reads.
const (
	maxWatched = 60
	maxDigest  = 16 << 20 // bytes; for a larger file the digest is its size and time
)

// Collect takes a snapshot of the environment of dir: the files that are usually to blame, and the files in more (paths
// relative to dir). Collect only reads and starts no process. It reads at most 60 files of at most 16 MiB each.
func Collect(dir string, tools map[string]string, more []string, now time.Time) failures.Snapshot {
	s := failures.Snapshot{At: now, Tools: maps.Clone(tools), Files: map[string]string{}, FreeMB: -1, FreeInodes: -1, UptimeMS: uptime()}
	names := append(watched(), more...)
	for _, name := range names[:min(len(names), maxWatched)] {
		if !filepath.IsLocal(name) {
			continue
		}
		if d := digest(filepath.Join(dir, name)); d != "" {
			s.Files[filepath.ToSlash(name)] = d
		}
	}
	if free, inodes, err := freeSpace(dir); err == nil {
		s.FreeMB, s.FreeInodes = int64(free>>20), int64(min(inodes, 1<<62))
	}
	return s
}

// digest identifies the content of a file. It returns "" if the file is missing or unreadable.
func digest(path string) string {
	f, _, err := door.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	if info.Size() > maxDigest {
		return fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339))
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxDigest)); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// uptime returns the time since the machine started, in milliseconds, or 0 on a system without /proc.
func uptime() int64 {
	data, _ := os.ReadFile("/proc/uptime")
	first, _, _ := strings.Cut(string(data), " ")
	sec, _ := strconv.ParseFloat(first, 64) // 0 if the text is not a number
	return int64(sec * 1000)
}

// maxExists bounds the number of paths that LookFor examines.
const maxExists = 50

// LookFor reports which of the files that quotes name exist. Relative paths start at dir.
func LookFor(dir string, quotes []failures.Quote) map[string]bool {
	out := map[string]bool{}
	for _, q := range quotes {
		if q.File == "" || len(out) >= maxExists {
			continue
		}
		_, err := os.Lstat(within(dir, q.File))
		out[q.File] = !errors.Is(err, fs.ErrNotExist)
	}
	return out
}
