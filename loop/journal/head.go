package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/superloop/superloop/internal/durable"
)

const headVersion = 1

// headRecord is a place as the head's file has it.
type headRecord struct {
	Version         uint8
	Seq, Begin, End int64
	Hash            [hashLen / 2]byte
}

func (p place) encode() []byte {
	rec := headRecord{Version: headVersion, Seq: p.seq, Begin: p.begin, End: p.end}
	_, _ = hex.Decode(rec.Hash[:], []byte(p.hash))           // our own digits
	data, _ := binary.Append(nil, binary.LittleEndian, &rec) // it has a fixed size
	return data
}

func decodePlace(data []byte, head string) (place, error) {
	var rec headRecord
	if n, err := binary.Decode(data, binary.LittleEndian, &rec); err != nil || n != len(data) || rec.Version != headVersion {
		return place{}, fmt.Errorf("%s is not a journal head that this superloop can read", head)
	}
	if rec.Seq < 1 || rec.Begin < 0 || rec.End-rec.Begin < 1 || rec.End-rec.Begin > MaxLine+1 {
		return place{}, fmt.Errorf("%s is not a journal head: event %d at bytes %d to %d", head, rec.Seq, rec.Begin, rec.End)
	}
	return place{seq: rec.Seq, begin: rec.Begin, end: rec.End, hash: hex.EncodeToString(rec.Hash[:])}, nil
}

// CheckHead compares a journal with its head, and changes neither: nil if the line that head names is in path where it
// has to be, or if there is no head; a *TamperedError if not. What is behind that line is for Verify to say.
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

// find looks for the line at its place.
func (p place) find(path, head string) error {
	tampered := func(why string) error {
		return &TamperedError{Path: path, Head: head, Seq: p.seq, Offset: p.begin, Why: why}
	}
	failed := func(err error) error { return fmt.Errorf("checking a journal against its head: %w", err) }
	f, err := durable.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tampered("is gone: there is no such file")
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
