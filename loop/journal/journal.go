package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
)

// Options are the options of Open.
type Options struct {
	Head string // the path of the anchor, in a directory that agents cannot write; "": the journal keeps no anchor
}

// Journal appends to one events.jsonl. Several goroutines may use it. If several of them sync at the same time, one
// flush serves all.
type Journal struct {
	disk     durable.Disk
	path     string
	repaired durable.Repair

	mu   sync.Mutex // guards app and last, and the order of the lines
	app  *durable.Appender
	last place // the last line that was appended

	flush  sync.Mutex // held during a flush; never taken while mu is held
	synced int64      // the number of the last event that is on the disk
	head   *durable.Slots
}

// Open opens the journal at path. It creates the file, but not its directory. The caller holds the loop's lock, so
// there is only one writer.
//
// Open first compares the journal with its head (*TamperedError), then checks its lines (*CorruptError), and changes
// nothing so far. Only if both succeed does it repair a torn end, if there is one: see Repaired. Then it flushes the
// file, so that everything that the journal says is on the disk. Only its owner can read a journal that Open creates,
// because a journal holds commands and parts of their outputs.
//
// The names of its steps for injected faults begin with "events:" and "head:".
func Open(d durable.Disk, path string, o Options) (_ *Journal, err error) {
	j := &Journal{disk: d, path: path}
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
	s, err := inspect(path)
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
	if j.app, err = d.OpenAppend("events", path, 0o600); err != nil {
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

// inspect checks the journal without changing it. A missing file counts as an empty journal.
func inspect(path string) (scan, error) {
	s, err := checkFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return scan{}, nil
	}
	if err != nil {
		return scan{}, fmt.Errorf("opening a journal: %w", err)
	}
	return s, nil
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
		return fmt.Errorf("appending to %s: %w", j.path, fs.ErrClosed)
	}
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

const headVersion = 1

// headRecord is the form of a place in the head's file.
type headRecord struct {
	Version         uint8
	Seq, Begin, End int64
	Hash            [hashLen / 2]byte
}

func (p place) encode() []byte {
	rec := headRecord{Version: headVersion, Seq: p.seq, Begin: p.begin, End: p.end}
	_, _ = hex.Decode(rec.Hash[:], []byte(p.hash))           // hash has hexadecimal digits only
	data, _ := binary.Append(nil, binary.LittleEndian, &rec) // headRecord has a fixed size
	return data
}

func decodePlace(data []byte, head string) (place, error) {
	var rec headRecord
	if n, err := binary.Decode(data, binary.LittleEndian, &rec); err != nil || n != len(data) || rec.Version != headVersion {
		return place{}, badHead(head, errors.New("it is not a journal head that this superloop can read"))
	}
	if rec.Seq < 1 || rec.Begin < 0 || rec.End-rec.Begin < 1 || rec.End-rec.Begin > MaxLine+1 {
		return place{}, badHead(head, fmt.Errorf("it is not a journal head: event %d at bytes %d to %d", rec.Seq, rec.Begin, rec.End))
	}
	return place{seq: rec.Seq, begin: rec.Begin, end: rec.End, hash: hex.EncodeToString(rec.Hash[:])}, nil
}

func badHead(head string, why error) error {
	return &door.StateError{What: "the anchor of the journal", Path: head, Err: why, Without: "nothing shows whether the end of the journal was cut"}
}

// CheckHead compares the journal at path with its head and changes neither. It returns nil if path holds the line that
// the head names at its place, or if there is no head. Otherwise it returns a *TamperedError. It does not check the
// lines behind that line. Verify does.
func CheckHead(path, head string) error {
	rec, ok, err := durable.ReadSlots(head)
	if err != nil || !ok {
		return err
	}
	p, err := decodePlace(rec, head)
	if err != nil {
		return err
	}
	return p.find(path, head)
}

// find checks that the file at path holds the line p at its place.
func (p place) find(path, head string) error {
	tampered := func(why string) error {
		return &TamperedError{Path: path, Head: head, Seq: p.seq, Offset: p.begin, Why: why}
	}
	failed := func(err error) error { return fmt.Errorf("checking a journal against its head: %w", err) }
	f, _, err := door.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tampered("is gone: there is no such file")
	}
	if errors.Is(err, door.ErrNotRegular) {
		return tampered("is gone: something else than a file is in its place")
	}
	if err != nil {
		return failed(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return failed(err)
	}
	if info.Size() < p.end {
		return tampered(fmt.Sprintf("is gone: the file has %d bytes, it had %d", info.Size(), p.end))
	}
	line := make([]byte, p.end-p.begin)
	if _, err := f.ReadAt(line, p.begin); err != nil {
		return failed(err)
	}
	var h header
	line, whole := bytes.CutSuffix(line, []byte("\n"))
	if !whole || h.parse(line) != "" || h.seq != p.seq || string(h.hash) != p.hash || !h.hashMatches() {
		return tampered("is not there any more: something else is in its place")
	}
	return nil
}
