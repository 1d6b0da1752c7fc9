package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/journal"
)

// OriginalError says that the directory of a loop holds a run of the bash original (superloop.sh), which superloop cannot
// continue. Nothing in it was changed. A fresh start moves it aside.
type OriginalError struct {
	LoopID string
	Path   string // the original's events.jsonl
}

func (e *OriginalError) Error() string {
	return fmt.Sprintf("%s was written by superloop.sh, the bash original; its runs cannot be continued here, and nothing is changed. "+
		"A fresh start keeps what the original left of this loop, in archive/%s beside it", e.Path, originalArchive)
}

// originalArchive is the directory in archive/ for what the original left of a loop.
const originalArchive = "original"

// openJournal opens the loop's journal. With Options.Fresh it first puts aside a journal that somebody has changed, and
// the files of the original.
func (d *driver) openJournal() (*journal.Journal, error) {
	open := func() (*journal.Journal, error) {
		// The directory is there before the first agent, because what is missing is not protected.
		if err := d.o.Disk.MkdirAll("dirs", journal.Segments(d.paths.Events()), 0o700); err != nil {
			return nil, err
		}
		return journal.Open(d.o.Disk, d.paths.Events(), journal.Options{Head: d.paths.Head(), SealBeyond: d.o.SealBeyond})
	}
	j, err := open()
	corrupt, isCorrupt := errors.AsType[*journal.CorruptError](err)
	_, tampered := errors.AsType[*journal.TamperedError](err)
	switch {
	case isCorrupt && corrupt.Line == 1 && journal.Original(d.paths.Events()):
		if !d.o.Fresh {
			return nil, &OriginalError{LoopID: d.o.LoopID, Path: d.paths.Events()}
		}
		err = d.archiveOriginal()
	case tampered && d.o.Fresh:
		err = d.setAside()
	default:
		return j, err
	}
	if err != nil {
		return nil, err
	}
	return open()
}

// archiveOriginal moves the files of the original to archive/original, the journal last. If superloop dies between two
// moves, the journal is still there, and the next fresh start moves the rest. It replaces nothing.
func (d *driver) archiveOriginal() error {
	to := filepath.Join(d.paths.Loop, "archive", originalArchive)
	if err := d.o.Disk.MkdirAll("archive", to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.paths.Loop)
	if err != nil {
		return err
	}
	const last = "events.jsonl"
	names := make([]string, 0, len(entries)+1)
	for _, e := range entries {
		name := e.Name()
		ours := name == "archive" || name == "lock" || durable.IsTemp(name) || e.IsDir() && empty(filepath.Join(d.paths.Loop, name))
		if !ours && name != last {
			names = append(names, name)
		}
	}
	for _, name := range append(names, last) {
		_, err := d.o.Disk.MoveFree("archive", filepath.Join(d.paths.Loop, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
