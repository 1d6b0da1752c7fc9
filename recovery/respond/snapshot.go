package respond

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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// Snapshot is the environment as it was at one time, small enough to be kept with
// every success.
type Snapshot struct {
	At time.Time `json:"at"`
	// Tools are the versions that were handed in, by name; Files the digests of lock
	// files and configurations, by path from the repository's root.
	Tools map[string]string `json:"tools,omitempty"`
	Files map[string]string `json:"files,omitempty"`
	// FreeMB and FreeInodes are of the repository's file system, -1 where nobody could
	// tell. UptimeMS tells jumps of the clock, 0 where nobody could tell.
	FreeMB     int64 `json:"free_mb"`
	FreeInodes int64 `json:"free_inodes"`
	UptimeMS   int64 `json:"uptime_ms,omitempty"`
}

// watched are the files whose change may be a cause. It is a function so that
// nobody can change it.
func watched() []string {
	return []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb",
		"requirements.txt", "pyproject.toml", "poetry.lock", "uv.lock", "Pipfile.lock", "go.mod", "go.sum", "Cargo.toml", "Cargo.lock",
		"Gemfile", "Gemfile.lock", "composer.lock", "Dockerfile", "docker-compose.yml", ".env", ".nvmrc", ".node-version", ".python-version",
		".tool-versions", ".npmrc", "Makefile", ".superloop/config.json"}
}

// Bounds of a Snapshot.
const (
	maxWatched = 60
	maxDigest  = 16 << 20 // larger files are told by size and time
)

// Collect takes a snapshot of the environment of dir: the files that are usually to
// blame, and more of the caller's choice (paths from dir). It reads, starts no
// process, and reads at most 60 files of 16 MiB.
func Collect(dir string, tools map[string]string, more []string, now time.Time) Snapshot {
	s := Snapshot{At: now, Tools: maps.Clone(tools), Files: map[string]string{}, FreeMB: -1, FreeInodes: -1, UptimeMS: uptime()}
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
	data, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), " ")
	sec, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return int64(sec * 1000)
}

// What a Change is of.
const (
	ChangeTool   = "tool"
	ChangeLock   = "lockfile"
	ChangeConfig = "config"
	ChangeDisk   = "disk"
	ChangeClock  = "clock"
)

// Change is one difference between two snapshots.
type Change struct {
	What   string `json:"what"`
	Name   string `json:"name,omitempty"`
	Before string `json:"before,omitempty"` // "" was not there
	After  string `json:"after,omitempty"`  // "" is not there any more
}

// String is the change as evidence.
func (c Change) String() string {
	switch {
	case c.Before == "":
		return fmt.Sprintf("%s %s is new: %s", c.What, c.Name, c.After)
	case c.After == "":
		return fmt.Sprintf("%s %s is gone, it was %s", c.What, c.Name, c.Before)
	}
	return strings.ReplaceAll(fmt.Sprintf("%s %s went from %s to %s", c.What, c.Name, c.Before, c.After), "  ", " ")
}

// Thresholds of Compare.
const (
	lowMB     = 200             // free, below that a disk is a suspect
	lowInodes = 1000            // free
	clockSlip = 2 * time.Minute // between the wall clock and the uptime
)

// Compare lists what has changed since an earlier snapshot, in a fixed order: tools,
// files, disk, clock. Without an earlier one only a disk that is nearly full is told.
func Compare(before, after Snapshot) []Change {
	var out []Change
	if !before.At.IsZero() {
		out = differences(before.Tools, after.Tools, func(string) string { return ChangeTool })
		out = append(out, differences(before.Files, after.Files, fileChange)...)
	}
	switch {
	case after.FreeMB >= 0 && after.FreeMB < lowMB:
		out = append(out, Change{ChangeDisk, "free space", mb(before), fmt.Sprintf("%d MB", after.FreeMB)})
	case after.FreeInodes >= 0 && after.FreeInodes < lowInodes:
		out = append(out, Change{ChangeDisk, "free inodes", "", strconv.FormatInt(after.FreeInodes, 10)})
	}
	if before.UptimeMS > 0 && after.UptimeMS > before.UptimeMS {
		slip := after.At.Sub(before.At) - time.Duration(after.UptimeMS-before.UptimeMS)*time.Millisecond
		if slip > clockSlip || slip < -clockSlip {
			out = append(out, Change{ChangeClock, "", "in step", "moved by " + slip.Round(time.Second).String()})
		}
	}
	return out
}

func mb(s Snapshot) string {
	if s.At.IsZero() || s.FreeMB < 0 {
		return ""
	}
	return fmt.Sprintf("%d MB", s.FreeMB)
}

func differences(before, after map[string]string, what func(string) string) []Change {
	var out []Change
	names := map[string]bool{}
	for n := range before {
		names[n] = true
	}
	for n := range after {
		names[n] = true
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if before[n] != after[n] {
			out = append(out, Change{what(n), n, before[n], after[n]})
		}
	}
	return out
}

// fileChange says what a file is: dependencies are pinned in it, or something is
// configured.
func fileChange(name string) string {
	base := filepath.Base(name)
	if strings.Contains(base, "lock") || slices.Contains([]string{"package.json", "requirements.txt", "pyproject.toml", "go.mod", "go.sum", "Cargo.toml", "Gemfile", "npm-shrinkwrap.json"}, base) {
		return ChangeLock
	}
	return ChangeConfig
}

// CommitFact is a commit, as the loop's git says.
type CommitFact struct {
	SHA     string    `json:"sha"`
	At      time.Time `json:"at"`
	Subject string    `json:"subject"`
	Files   []string  `json:"files,omitempty"` // from the repository's root
}

// Elsewhere is a failure of another loop.
type Elsewhere struct {
	Loop      string    `json:"loop_id"`
	Category  string    `json:"category"`
	Signature string    `json:"signature"`
	Provider  string    `json:"provider,omitempty"`
	At        time.Time `json:"at"`
}

// Facts are what is known of the environment when a cause is looked for.
type Facts struct {
	Changes []Change     `json:"changes,omitempty"` // since the task's role succeeded last
	Commits []CommitFact `json:"commits,omitempty"` // since then, the newest first
	Others  []Elsewhere  `json:"others,omitempty"`
	// Exists says of paths that the evidence names whether they are there.
	Exists map[string]bool `json:"exists,omitempty"`
}

// maxExists bounds how many paths LookFor looks at.
const maxExists = 50

// LookFor says which paths of quotes are there, seen from dir.
func LookFor(dir string, quotes []Quote) map[string]bool {
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
