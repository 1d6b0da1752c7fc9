package failures

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Snapshot describes the environment at one time. It is small enough to be kept with every success.
type Snapshot struct {
	At time.Time `json:"at"`
	// Tools maps names of tools to versions. Files maps paths of lock files and configurations, relative to the
	// repository, to digests.
	Tools map[string]string `json:"tools,omitempty"`
	Files map[string]string `json:"files,omitempty"`
	// FreeMB and FreeInodes are the free space of the repository's file system, -1 if unknown. UptimeMS, compared with
	// At, reveals jumps of the clock; it is 0 if unknown.
	FreeMB     int64 `json:"free_mb"`
	FreeInodes int64 `json:"free_inodes"`
	UptimeMS   int64 `json:"uptime_ms,omitempty"`
}

// These are the values of Change.What, and the thresholds of Compare.
const (
	ChangeTool   = "tool"
	ChangeLock   = "lockfile"
	ChangeConfig = "config"
	ChangeDisk   = "disk"
	ChangeClock  = "clock"

	lowMB     = 200             // MB of free space; below it Compare reports the disk
	lowInodes = 1000            // free inodes; below it Compare reports the disk
	clockSlip = 2 * time.Minute // difference between the wall clock and the uptime
)

// Change is one difference between two snapshots.
type Change struct {
	What   string `json:"what"`
	Name   string `json:"name,omitempty"`
	Before string `json:"before,omitempty"` // "" if it did not exist
	After  string `json:"after,omitempty"`  // "" if it no longer exists
}

// String returns the change as a sentence for evidence.
func (c Change) String() string {
	switch {
	case c.Before == "":
		return fmt.Sprintf("%s %s is new: %s", c.What, c.Name, c.After)
	case c.After == "":
		return fmt.Sprintf("%s %s is gone, it was %s", c.What, c.Name, c.Before)
	}
	return strings.ReplaceAll(fmt.Sprintf("%s %s went from %s to %s", c.What, c.Name, c.Before, c.After), "  ", " ")
}

// Compare lists what has changed since an earlier snapshot, in a fixed order: tools, files, disk, clock. Without an
// earlier snapshot Compare reports only a disk that is nearly full.
func Compare(before, after Snapshot) []Change {
	var out []Change
	if !before.At.IsZero() {
		out = differences(before.Tools, after.Tools, func(string) string { return ChangeTool })
		out = append(out, differences(before.Files, after.Files, fileChange)...)
	}
	was := ""
	if !before.At.IsZero() && before.FreeMB >= 0 {
		was = fmt.Sprintf("%d MB", before.FreeMB)
	}
	switch {
	case after.FreeMB >= 0 && after.FreeMB < lowMB:
		out = append(out, Change{ChangeDisk, "free space", was, fmt.Sprintf("%d MB", after.FreeMB)})
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

func differences(before, after map[string]string, what func(string) string) []Change {
	var out []Change
	names := map[string]string{}
	maps.Copy(names, before)
	maps.Copy(names, after)
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if before[n] != after[n] {
			out = append(out, Change{what(n), n, before[n], after[n]})
		}
	}
	return out
}

// fileChange says whether a file pins dependencies (ChangeLock) or configures something (ChangeConfig).
func fileChange(name string) string {
	base := filepath.Base(name)
	if strings.Contains(base, "lock") || slices.Contains([]string{"package.json", "requirements.txt", "pyproject.toml", "go.mod", "go.sum", "Cargo.toml", "Gemfile", "npm-shrinkwrap.json"}, base) {
		return ChangeLock
	}
	return ChangeConfig
}

// CommitFact is a commit of the loop's repository.
type CommitFact struct {
	SHA     string    `json:"sha"`
	At      time.Time `json:"at"`
	Subject string    `json:"subject"`
	Files   []string  `json:"files,omitempty"` // relative to the root of the repository
}

// Elsewhere is a failure of another loop.
type Elsewhere struct {
	Loop      string    `json:"loop_id"`
	Role      string    `json:"role,omitempty"` // the kind of task
	Category  string    `json:"category"`
	Signature string    `json:"signature"`
	Provider  string    `json:"provider,omitempty"`
	At        time.Time `json:"at"`
}

// Facts are the facts about the environment that an analysis of the cause uses.
type Facts struct {
	Changes []Change     `json:"changes,omitempty"` // since the last success of the task's role
	Commits []CommitFact `json:"commits,omitempty"` // since the same time, the newest first
	Others  []Elsewhere  `json:"others,omitempty"`
	// Exists says whether the paths that the evidence names exist.
	Exists map[string]bool `json:"exists,omitempty"`
	// Namesakes says, for such paths that do not exist, which file of the project has the same name in another directory.
	Namesakes map[string]string `json:"namesakes,omitempty"`
}
