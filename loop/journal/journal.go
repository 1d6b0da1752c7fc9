package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// Options of Open. The zero value is a journal without a head, readable by its owner only.
type Options struct {
	// Head is the path of the anchor, in a directory that agents cannot write; "": none is kept.
	Head string
	// VerifyAll makes Open check every line; otherwise it checks the line that the head names and those after it, or
	// all if there is no head.
	VerifyAll bool
	// Perm is the mode of a journal that Open creates; 0: 0600. A journal holds commands and the ends of their outputs.
	Perm fs.FileMode
}

// Journal appends to one events.jsonl. It may be used by several goroutines; of those that append with sync at the same
// time one flushes for all.
type Journal struct {
	disk     durable.Disk
	path     string
	repaired durable.Repair

	mu   sync.Mutex // guards what follows, and the order of the lines
	app  *durable.Appender
	last place // the last line that was appended

	flush   sync.Mutex // held during a flush; taken without mu
	synced  int64      // the last event that is on the disk
	head    *durable.Slots
	headErr error
}

// Open opens the journal at path and creates it if it is not there; its directory must be. The caller holds the loop's
// lock: there is one writer.
//
// It checks the journal against its head (*TamperedError), then its lines (*CorruptError; see Options.VerifyAll for how
// many), changing nothing. Only if all is well it repairs a torn end, if there is one: see Repaired. It flushes what it
// found, so that whoever acts on what the journal says acts on what is on the disk.
//
// Steps for a fault: "events:..." and "head:...".
func Open(d durable.Disk, path string, o Options) (_ *Journal, err error) {
	j := &Journal{disk: d, path: path}
	defer func() {
		if err != nil {
			_ = j.closeFiles() // the first error is the one to tell
		}
	}()
	anchor, err := j.openHead(o.Head)
	if err != nil {
		return nil, err
	}
	s, err := j.inspect(anchor, o)
	if err != nil {
		return nil, err
	}
	if s.bad != nil {
		if !s.bad.Torn {
			return nil, s.bad
		}
		if j.repaired, err = d.CutTail("events", path, s.end); err != nil {
			return nil, err
		}
	}
	if j.app, err = d.OpenAppend("events", path, cmp.Or(o.Perm, 0o600)); err != nil {
		return nil, err
	}
	if got := j.app.Size(); got != s.end {
		return nil, fmt.Errorf("opening a journal: %w", &durable.ChangedError{Path: path,
			Why: fmt.Sprintf("it has %d bytes where %d were just read; is another supervisor writing to it?", got, s.end)})
	}
	j.last = s.place
	if j.last.seq > 0 {
		if err := j.commit(j.last.seq); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// openHead gives the place that the head names; its seq is 0 if there is none. A head without a whole record is one
// that a power cut took before it was flushed: the lines are then all checked.
func (j *Journal) openHead(head string) (p place, err error) {
	if head == "" {
		return p, nil
	}
	if j.head, err = j.disk.OpenSlots("head", head, 0o600); err != nil {
		return p, err
	}
	if rec, ok := j.head.Record(); ok {
		return decodePlace(rec, head)
	}
	return p, nil
}

// inspect reads the journal without changing it.
func (j *Journal) inspect(anchor place, o Options) (scan, error) {
	if anchor.seq > 0 {
		if err := anchor.find(j.path, o.Head); err != nil {
			return scan{}, err
		}
	}
	f, err := durable.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return scan{}, nil
	}
	if err != nil {
		return scan{}, fmt.Errorf("opening a journal: %w", err)
	}
	defer f.Close()
	if o.VerifyAll {
		anchor = place{}
	}
	s, err := check(f, j.path, anchor)
	if err != nil {
		return scan{}, fmt.Errorf("opening a journal: %w", err)
	}
	return s, nil
}

// Repaired says what Open cut off the end; its Cut is 0 if nothing. The caller records it as an event
// (journal_repaired).
func (j *Journal) Repaired() durable.Repair { return j.repaired }

// Append writes evs as one group, in one write, behind what is there. It fills in Seq, Prev and Hash, in evs itself,
// and returns evs; Timestamp is rounded as it is written. With sync the group, and all before it, is on the disk when
// Append returns; without, it survives a kill of the process.
//
// On an error nothing of the group counts and evs is as it was: what was written of it is cut off, and a later Append
// works if there is room by then. There are two exceptions, after which every Append fails with the first error: a
// flush failed, or the file is no longer the one that was written (*durable.ChangedError). The way on is then to open
// the journal again.
func (j *Journal) Append(sync bool, evs ...Event) ([]Event, error) {
	j.mu.Lock()
	err := j.write(evs)
	seq := j.last.seq
	j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if sync {
		if err := j.commit(seq); err != nil {
			return nil, err
		}
	}
	return evs, nil
}

func (j *Journal) write(evs []Event) error {
	if j.app == nil {
		return fmt.Errorf("appending to %s: %w", j.path, fs.ErrClosed)
	}
	if len(evs) == 0 {
		return nil
	}
	last, next := j.last, slices.Clone(evs)
	var buf []byte
	for i := range next {
		ev := &next[i]
		ev.Seq, ev.Prev = last.seq+1, last.hash
		var err error
		if buf, err = AppendLine(buf, *ev); err != nil {
			return fmt.Errorf("appending to %s: %w", j.path, err)
		}
		last = place{seq: ev.Seq, begin: last.end, end: j.last.end + int64(len(buf)), hash: lineHash(buf)}
		ev.settle(last, ev.Prev)
	}
	if err := j.app.Append(buf); err != nil {
		return err
	}
	copy(evs, next)
	j.last = last
	return nil
}

// settle makes ev what a reader of its line gets.
func (ev *Event) settle(at place, prev string) {
	ev.Seq, ev.Prev, ev.Hash = at.seq, prev, at.hash
	ev.Timestamp = ev.Timestamp.UTC().Truncate(time.Millisecond)
	for _, s := range []*string{&ev.Event, &ev.LoopID, &ev.RunID} {
		*s = string([]rune(*s)) // as the encoder writes it
	}
}

// commit makes event seq, and all before it, survive a power cut. Whoever comes while another flushes waits, and then
// finds its event flushed, or flushes for all that have come meanwhile: there is no timer.
func (j *Journal) commit(seq int64) error {
	j.flush.Lock()
	defer j.flush.Unlock()
	if j.synced >= seq {
		return nil
	}
	j.mu.Lock()
	last, app := j.last, j.app
	j.mu.Unlock()
	if app == nil {
		return fmt.Errorf("appending to %s: %w", j.path, fs.ErrClosed)
	}
	if err := app.Sync(); err != nil {
		return err
	}
	j.synced = last.seq
	if j.head != nil {
		// The event is safe, so a head that stays behind is no reason to say that it is not: HeadErr tells.
		j.headErr = j.head.Store(last.encode())
	}
	return nil
}

// HeadErr is the error of the last write of the head, nil if that went well: while it is not nil, a change of the
// newest lines would not be found.
func (j *Journal) HeadErr() error {
	j.flush.Lock()
	defer j.flush.Unlock()
	return j.headErr
}

// LastSeq is the number of the last event, 0 if there is none.
func (j *Journal) LastSeq() int64 { return j.end().seq }

// LastHash is the hash of the last event, "" if there is none.
func (j *Journal) LastHash() string { return j.end().hash }

// Size is the length of the file in bytes.
func (j *Journal) Size() int64 { return j.end().end }

func (j *Journal) end() place {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Close flushes what was appended without sync, and closes the files. A second Close does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	seq, open := j.last.seq, j.app != nil
	j.mu.Unlock()
	if !open {
		return nil
	}
	return errors.Join(j.commit(seq), j.closeFiles())
}

func (j *Journal) closeFiles() (err error) {
	j.flush.Lock()
	defer j.flush.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.app != nil {
		err = j.app.Close()
		j.app = nil
	}
	if j.head != nil {
		err = errors.Join(err, j.head.Close())
		j.head = nil
	}
	return err
}
