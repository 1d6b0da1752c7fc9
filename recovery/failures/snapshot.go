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

// Snapshot is the environment as it was at one time, small enough to be kept with every success.
type Snapshot struct {
	At time.Time `json:"at"`
	// Tools are versions by name; Files digests of lock files and configurations, by path from the repository's root.
	Tools map[string]string `json:"tools,omitempty"`
	Files map[string]string `json:"files,omitempty"`
	// FreeMB and FreeInodes are of the repository's file system, -1 where nobody could tell. UptimeMS tells jumps of
	// the clock, 0 where nobody could tell.
	FreeMB     int64 `json:"free_mb"`
	FreeInodes int64 `json:"free_inodes"`
	UptimeMS   int64 `json:"uptime_ms,omitempty"`
}

// What a Change is of, and the thresholds of Compare.
const (
	ChangeTool   = "tool"
	ChangeLock   = "lockfile"
	ChangeConfig = "config"
	ChangeDisk   = "disk"
	ChangeClock  = "clock"

	lowMB     = 200             // free, below that a disk is a suspect
	lowInodes = 1000            // free
	clockSlip = 2 * time.Minute // between the wall clock and the uptime
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

// Compare lists what has changed since an earlier snapshot, in a fixed order: tools, files, disk, clock. Without an
// earlier one only a disk that is nearly full is told.
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

// fileChange says what a file is: dependencies are pinned in it, or something is configured.
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
