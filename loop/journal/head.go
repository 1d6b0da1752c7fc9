package journal

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/superloop/superloop/internal/durable"
)

// place is a line and where it is in the file.
type place struct {
	seq        int64
	begin, end int64 // its first byte, and behind its newline
	hash       string
}

const (
	headVersion = 1
	headLen     = 1 + 3*8 + hashLen/2
)

func (p place) encode(dst []byte) []byte {
	dst = append(dst, headVersion)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.seq))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.begin))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.end))
	dst, _ = hex.AppendDecode(dst, []byte(p.hash)) // our own digits
	return dst
}

func decodePlace(rec []byte, head string) (place, error) {
	if len(rec) != headLen || rec[0] != headVersion {
		return place{}, fmt.Errorf("%s is not a journal head that this superloop can read", head)
	}
	p := place{
		seq:   int64(binary.LittleEndian.Uint64(rec[1:])),
		begin: int64(binary.LittleEndian.Uint64(rec[9:])),
		end:   int64(binary.LittleEndian.Uint64(rec[17:])),
		hash:  hex.EncodeToString(rec[25:]),
	}
	if p.seq < 1 || p.begin < 0 || p.end-p.begin < 1 || p.end-p.begin > MaxLine+1 {
		return place{}, fmt.Errorf("%s is not a journal head: event %d at bytes %d to %d", head, p.seq, p.begin, p.end)
	}
	return p, nil
}

// CheckHead compares a journal with its head, and changes neither: nil if the
// line that head names is in path where it has to be, or if there is no head; a
// *TamperedError if not. What is behind that line is for Verify to say.
func CheckHead(path, head string) error {
	rec, ok, err := durable.ReadSlots(head)
	if err != nil || !ok {
		return err
	}
	p, err := decodePlace(rec, head)
	if err != nil {
		return err
	}
	f, err := durable.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p.tampered(path, head, "is gone: there is no such file")
	}
	if err != nil {
		return fmt.Errorf("checking a journal against its head: %w", err)
	}
	defer f.Close()
	return p.find(f, path, head)
}

// find looks for the line at its place.
func (p place) find(f *os.File, path, head string) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("checking a journal against its head: %w", err)
	}
	if info.Size() < p.end {
		return p.tampered(path, head, fmt.Sprintf("is gone: the file has %d bytes, it had %d", info.Size(), p.end))
	}
	piece := make([]byte, p.end-p.begin)
	if _, err := f.ReadAt(piece, p.begin); err != nil {
		return fmt.Errorf("checking a journal against its head: %w", err)
	}
	var h header
	line := piece[:len(piece)-1]
	if piece[len(line)] != '\n' || h.parse(line) != "" || h.seq != p.seq || string(h.hash) != p.hash || !h.hashMatches() {
		return p.tampered(path, head, "is not there any more: something else is in its place")
	}
	return nil
}

func (p place) tampered(path, head, why string) error {
	return &TamperedError{Path: path, Head: head, Seq: p.seq, Offset: p.begin, Why: why}
}

// chain is the chain behind the line.
func (p place) chain() chain {
	c := chain{seq: p.seq}
	copy(c.hash[:], p.hash)
	return c
}
