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

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/failures"
)

// watched are the files whose change may be a cause. It is a function so that nobody can change it.
func watched() []string {
	return []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb",
		"requirements.txt", "pyproject.toml", "poetry.lock", "uv.lock", "Pipfile.lock", "go.mod", "go.sum", "Cargo.toml", "Cargo.lock",
		"Gemfile", "Gemfile.lock", "composer.lock", "Dockerfile", "docker-compose.yml", ".env", ".nvmrc", ".node-version", ".python-version",
		".tool-versions", ".npmrc", "Makefile", ".superloop/config.json"}
}

// Bounds of what Collect reads.
const (
	maxWatched = 60
	maxDigest  = 16 << 20 // larger files are told by size and time
)

// Collect takes a snapshot of the environment of dir: the files that are usually to blame, and more of the caller's
// choice (paths from dir). It reads, starts no process, and reads at most 60 files of 16 MiB.
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

// digest names a file's content, "" when there is none that can be read.
func digest(path string) string {
	f, err := durable.Open(path)
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

// uptime is since the machine began, in milliseconds; 0 where /proc is not there.
func uptime() int64 {
	data, _ := os.ReadFile("/proc/uptime")
	first, _, _ := strings.Cut(string(data), " ")
	sec, _ := strconv.ParseFloat(first, 64) // 0 of what is no number
	return int64(sec * 1000)
}

// maxExists bounds how many paths LookFor looks at.
const maxExists = 50

// LookFor says which paths of quotes are there, seen from dir.
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
