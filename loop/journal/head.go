package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
)

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

// find checks that the journal at path holds the line p at its place.
func (p place) find(path, head string) error {
	tampered := func(why string) error {
		return &TamperedError{Path: path, Head: head, Seq: p.seq, Offset: p.begin, Why: why}
	}
	failed := func(err error) error { return fmt.Errorf("checking a journal against its head: %w", err) }
	l, err := openFiles(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tampered("is gone: there is no such file")
	}
	if errors.Is(err, door.ErrNotRegular) {
		return tampered("is gone: something else than a file is in its place")
	}
	if err != nil {
		return failed(err)
	}
	defer l.close()
	size, err := l.size()
	if err != nil {
		return failed(err)
	}
	if size < p.end {
		return tampered(fmt.Sprintf("is gone: the journal has %d bytes, it had %d", size, p.end))
	}
	there, err := l.holds(p)
	if err != nil {
		return failed(err)
	}
	if !there {
		return tampered("is not there any more: something else is in its place")
	}
	return nil
}

// holds reports whether the journal has the line p at its place.
func (l *files) holds(p place) (bool, error) {
	if size, err := l.size(); err != nil || size < p.end {
		return false, err
	}
	in := l.stream(p.begin)
	defer in.close()
	line := make([]byte, p.end-p.begin)
	if _, err := io.ReadFull(in, line); err == io.EOF || err == io.ErrUnexpectedEOF {
		return false, nil // it was cut meanwhile
	} else if err != nil {
		return false, err
	}
	var h header
	line, whole := bytes.CutSuffix(line, []byte("\n"))
	return whole && h.parse(line) == "" && h.seq == p.seq && string(h.hash) == p.hash && h.hashMatches(), nil
}
