package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// Options are the options of Open.
type Options struct {
	Head string // the path of the anchor, in a directory that agents cannot write; "": the journal keeps no anchor
	// SealBeyond is the size of the active file from which on Seal seals it, in bytes. 0: 64 MiB.
	SealBeyond int64
	block      int64 // what tests have instead of blockSize
}

// Journal appends to one events.jsonl. Several goroutines may use it. If several of them sync at the same time, one
// flush serves all.
type Journal struct {
	disk     durable.Disk
	path     string
	o        Options
	repaired durable.Repair

	mu   sync.Mutex // guards the fields up to flush, and the order of the lines
	app  *durable.Appender
	lost error // why app is nil, if Close did not do it
	last place // the last line that was appended
	base place // the last line that is sealed
	seal known // the segments

	flush  sync.Mutex // held during a flush; never taken while mu is held
	synced int64      // the number of the last event that is on the disk
	head   *durable.Slots
}

// Open opens the journal at path. It creates the file, but not its directory. The caller holds the loop's lock, so
// there is only one writer.
//
// Open first compares the journal with its head (*TamperedError), then checks its lines (*CorruptError), and changes
// nothing so far. Only if both succeed does it repair a torn end, if there is one: see Repaired. It undoes a sealing that
// was interrupted. Then it flushes the file, so that everything that the journal says is on the disk. Only its owner can
// read a journal that Open creates, because a journal holds commands and parts of their outputs.
//
// Open knows a segment that was checked before by the digest of its file, which lies beside the head, and does not check
// its lines again. If the digest does not fit or is gone, Open checks them.
//
// The names of its steps for injected faults begin with "events:", "seal:" and "head:".
func Open(d durable.Disk, path string, o Options) (_ *Journal, err error) {
	j := &Journal{disk: d, path: path, o: o}
	defer func() {
		if err != nil {
			_ = j.closeFiles() // the caller gets the first error
		}
	}()
	anchor, err := j.openHead(o.Head)
	switch {
	case err == nil && anchor.seq > 0:
		err = anchor.find(path, o.Head)
	case err == nil:
		err = d.Clear("events", path) // no line of a journal was ever written there
	}
	if err != nil {
		return nil, err
	}
	s, err := j.inspect()
	if err != nil {
		return nil, err
	}
	if s.bad != nil {
		if !s.bad.Torn {
			return nil, s.bad
		}
		if j.repaired, err = d.CutTail("events", path, s.end-j.base.end); err != nil {
			return nil, err
		}
	}
	if err := j.tidy(s.copied); err != nil {
		return nil, err
	}
	if j.app, err = d.OpenAppend("events", path, 0o600); err != nil {
		return nil, err
	}
	if got := j.base.end + j.app.Size(); got != s.end {
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

// openHead returns the place that the head names. Its seq is 0 if there is no head. A head without a whole record was
// lost in a power cut before it was flushed. Open then checks the lines alone.
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

// inspect checks the journal without changing it. A missing file counts as an empty journal, unless it has segments.
func (j *Journal) inspect() (s scan, err error) {
	l, err := openFiles(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		all, err := segmentsOf(j.path)
		if err == nil && len(all) > 0 {
			err = &CorruptError{Path: j.path, Why: "the file is gone, and its segments are not"}
		}
		return scan{}, err
	}
	if err != nil {
		return scan{}, fmt.Errorf("opening a journal: %w", err)
	}
	defer l.close()
	if l.copied != nil {
		if _, err := l.copied.blocks(); err != nil {
			return scan{}, err
		}
	}
	j.base, j.seal = l.base, readKnown(j.o.Head)
	if !j.seal.fits(l) {
		j.seal = known{}
	}
	if s, err = l.check(j.seal.Segments); err != nil {
		return scan{}, fmt.Errorf("opening a journal: %w", err)
	}
	if s.bad == nil && l.copied != nil && !s.copied {
		return scan{}, l.copied.damaged(l.base, errors.New("it holds other lines than the file that was sealed"))
	}
	if s.bad == nil || s.bad.Torn {
		err = j.know(l)
	}
	return s, err
}

// Repaired says what Open cut off the end of the file, if its Cut is not 0. The caller records it (journal_repaired).
func (j *Journal) Repaired() durable.Repair { return j.repaired }

// Append writes evs as one group, in one write, at the end of the file. It sets Seq, Prev and Hash in evs itself and
// returns evs. It rounds Timestamp to what the line holds. With sync, the group and all events before it are on the
// disk when Append returns. Without sync, the group survives a kill of the process, but not a power cut.
//
// After an error none of the events is in the journal, and evs is unchanged. Append cuts off the part that it wrote,
// and a later Append works if there is room by then. There are two exceptions, after which every Append fails with the
// first error: a flush failed, or the file is not the one that was written (*durable.ChangedError). The caller then has
// to open the journal again.
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
		return j.closed()
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

// settle gives ev the values that a reader of its line gets.
func (ev *Event) settle(at place, prev string) {
	ev.Seq, ev.Prev, ev.Hash = at.seq, prev, at.hash
	ev.Timestamp = ev.Timestamp.UTC().Truncate(time.Millisecond)
	for _, s := range []*string{&ev.Event, &ev.LoopID, &ev.RunID} {
		*s = string([]rune(*s)) // the encoder writes U+FFFD for invalid UTF-8, too
	}
}

// commit makes event seq, and all events before it, survive a power cut. A goroutine that comes during a flush waits
// for the end of that flush. If its event is then still not flushed, it flushes once for all that have come meanwhile.
// There is no timer.
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
		return j.closed()
	}
	return j.sync(app, last)
}

// sync flushes app, whose last line is last, and stores the head. The caller holds flush.
func (j *Journal) sync(app *durable.Appender, last place) error {
	if err := app.Sync(); err != nil {
		return err
	}
	j.synced = last.seq
	if j.head != nil {
		// The event is on the disk. A head that stays behind is no reason to report a failure.
		_ = j.head.Store(last.encode())
	}
	return nil
}

// LastSeq returns the number of the last event, 0 if there is none.
func (j *Journal) LastSeq() int64 { return j.end().seq }

func (j *Journal) end() place {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Close flushes the events that were appended without sync and closes the files. A second Close does nothing.
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
