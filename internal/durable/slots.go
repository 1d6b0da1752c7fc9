package durable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

// Slots stores a small record that is often replaced in place at low cost: one pwrite(2), no rename and no flush. The
// file has two slots, 4 KiB apart, which Store writes in turn. Each slot carries a generation and a CRC-32C. The record
// is the valid slot with the highest generation. If a kill or a power cut tears a write, it damages only the older
// slot, so the record before it is still there. The distance is 4 KiB because that is the largest unit in which a disk
// tears a write.
//
// The result of Store survives a kill. A power cut may leave any record that was stored earlier, but never a mix of
// two. A reader therefore takes the record to mean "at least this".
//
// The format of a slot, little-endian: 4 bytes "slot", 4 bytes CRC-32C of all bytes that follow, 8 bytes generation, 2
// bytes length, record.
type Slots struct {
	d    Disk
	op   string
	file *os.File
	gen  uint64
	last []byte
}

const (
	slotStride = 4096
	slotHead   = 18
	slotMagic  = "slot"
	// MaxRecord is the length of the longest possible record, in bytes.
	MaxRecord = slotStride - slotHead
)

// OpenSlots opens or creates path, and flushes the directory of a new or empty file. Steps: open, read, and for a new
// or empty file dirsync.
func (d Disk) OpenSlots(op, path string, perm fs.FileMode) (*Slots, error) {
	f, err := d.open(op, "open", path, os.O_RDWR|os.O_CREATE, perm)
	if err != nil {
		return nil, err
	}
	s := &Slots{d: d, op: op, file: f}
	err = d.do(op, "read", path, func() (err error) {
		s.gen, s.last, err = newest(f)
		return err
	})
	if err == nil && s.gen == 0 {
		err = d.syncDir(op, path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// ReadSlots returns the record of path without opening the file for writing. ok is false if there is no record.
func ReadSlots(path string) (record []byte, ok bool, err error) {
	f, err := openRegular(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	var gen uint64
	if err == nil {
		defer f.Close()
		gen, record, err = newest(f)
	}
	return record, gen > 0, fail("slots", "read", path, err)
}

// Record returns the last stored record. ok is false if there is none, or if no slot is valid.
func (s *Slots) Record() (record []byte, ok bool) { return s.last, s.gen > 0 }

// Store replaces the record. After an error the record before it is intact on the disk, and the caller may call Store
// again. Steps: write.
func (s *Slots) Store(record []byte) error {
	if len(record) > MaxRecord {
		return fail(s.op, "write", s.file.Name(), fmt.Errorf("record of %d bytes, the longest is %d", len(record), MaxRecord))
	}
	gen := s.gen + 1
	b := append(make([]byte, 0, slotHead+len(record)), slotMagic+"\x00\x00\x00\x00"...)
	b = binary.LittleEndian.AppendUint64(b, gen)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(record)))
	b = append(b, record...)
	binary.LittleEndian.PutUint32(b[4:], slotSum(b[8:]))
	put := func(p []byte) (int, error) { return s.file.WriteAt(p, int64(gen%2)*slotStride) }
	if _, err := s.d.write(put, s.op, "write", s.file.Name(), b); err != nil {
		return err
	}
	s.gen, s.last = gen, append(s.last[:0], record...)
	return nil
}

// Close closes the file. Steps: close.
func (s *Slots) Close() error { return s.d.closeFile(s.file, s.op, s.file.Name()) }

// newest returns the valid slot with the highest generation. gen is 0 if there is none.
func newest(f *os.File) (gen uint64, record []byte, err error) {
	var b [slotStride]byte
	for i := range int64(2) {
		n, err := f.ReadAt(b[:], i*slotStride)
		if err != nil && err != io.EOF {
			return 0, nil, err
		}
		if g, r := decodeSlot(b[:n]); g > gen {
			gen, record = g, bytes.Clone(r)
		}
	}
	return gen, record, nil
}

// decodeSlot decodes a slot. It returns generation 0 for an invalid slot.
func decodeSlot(b []byte) (gen uint64, record []byte) {
	if len(b) < slotHead || string(b[:4]) != slotMagic {
		return 0, nil
	}
	end := slotHead + int(binary.LittleEndian.Uint16(b[16:]))
	if end > len(b) || binary.LittleEndian.Uint32(b[4:]) != slotSum(b[8:end]) {
		return 0, nil
	}
	return binary.LittleEndian.Uint64(b[8:]), b[slotHead:end]
}

func slotSum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
