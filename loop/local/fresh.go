package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
)

// archive moves the files of the last run to archive/<run id> before a fresh start. The journal stays, and the new run
// appends to it. If superloop dies between two moves, the next fresh start moves the rest to the same directory. It
// replaces nothing there: a file whose name is taken gets the next free one, such as "plan.md.2".
func (d *driver) archive() error {
	if err := d.approvals.Withdraw("the loop begins anew"); err != nil {
		return err
	}
	to := filepath.Join(d.paths.Loop, "archive", d.state.RunID)
	if err := d.host.Dir("archive", to); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.paths.Loop)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if stays(name) || e.IsDir() && empty(filepath.Join(d.paths.Loop, name)) {
			continue
		}
		_, err := d.o.Disk.MoveFree("archive", filepath.Join(d.paths.Loop, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // an agent that outlived its run may have removed the file
			return d.host.Full(err)
		}
	}
	return nil
}

// stays reports whether a file in the loop's directory is of all runs, or is being written right now.
func stays(name string) bool {
	switch name {
	case "archive", "lock", "state.json", "usage.jsonl", "policies":
		return true
	}
	return slices.Contains(layout.OwnFiles(), name) || strings.HasPrefix(name, "events.jsonl") || durable.IsTemp(name)
}

// empty reports whether a directory holds nothing. open makes such directories.
func empty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// setAside renames a journal that somebody has changed, with its segments, and the anchor that shows the change, so that
// a fresh start is possible. All is kept. If superloop dies in between, the anchor alone shows the change, and the next
// fresh start renames the rest.
func (d *driver) setAside() error {
	events := d.paths.Events()
	suffix := ".tampered-" + d.o.Now().UTC().Format("20060102T150405.000Z")
	for _, one := range [][2]string{{events, events + suffix}, {journal.Segments(events), journal.Segments(events + suffix)}, {d.paths.Head(), d.paths.Head() + suffix}} {
		if empty(one[0]) {
			continue // the directory of segments of a journal that was never sealed
		}
		if _, err := d.o.Disk.MoveFree("tampered", one[0], one[1]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
