package journal

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// blockSize is the number of bytes of lines behind which a new block begins. A reader decompresses up to one block before
// the line that it looks for.
const blockSize = 1 << 20

// block is a part of a segment: a gzip member that holds whole lines. Its place is that of its last line.
type block struct {
	place
	first int64  // the number of its first line
	from  int64  // the offset of its first line
	prev  string // the hash of the line before it
	at    int64  // where its member begins in the segment's file
	size  int64  // of its member
}

// before returns the place that the first line of the block follows.
func (b *block) before() place { return place{seq: b.first - 1, end: b.from, hash: b.prev} }

const blockVersion = 1

// blockRecord is the form of a block in the extra field of its gzip header. All numbers are little-endian.
type blockRecord struct {
	Version          uint8
	Size             uint32
	First, From      int64
	Prev             [hashLen / 2]byte
	Last, Begin, End int64
	Hash             [hashLen / 2]byte
}

// gzipHead is how the gzip header of a block begins: deflate, an extra field, no time, the level BestSpeed, no system.
// Behind it stand the length of the extra field, the subfield "SL", its length, and the blockRecord.
const gzipHead = "\x1f\x8b\x08\x04\x00\x00\x00\x00\x04\xff"

const blockID = "SL"

var (
	recordSize = binary.Size(blockRecord{})
	extraSize  = len(blockID) + 2 + recordSize
	headSize   = len(gzipHead) + 2 + extraSize
)

// header returns the gzip header of the block's member.
func (b *block) header() []byte {
	rec := blockRecord{Version: blockVersion, Size: uint32(b.size), First: b.first, From: b.from, Last: b.seq, Begin: b.begin, End: b.end}
	_, _ = hex.Decode(rec.Prev[:], []byte(b.prev)) // hashes have hexadecimal digits only
	_, _ = hex.Decode(rec.Hash[:], []byte(b.hash))
	data := binary.LittleEndian.AppendUint16([]byte(gzipHead), uint16(extraSize))
	data = binary.LittleEndian.AppendUint16(append(data, blockID...), uint16(recordSize))
	data, _ = binary.Append(data, binary.LittleEndian, &rec) // blockRecord has a fixed size
	return data
}

var errNoBlock = errors.New("what is there is no block of a journal that this superloop can read")

// decodeBlock reads the header of a member that begins at the offset at of its file. data may be longer.
func decodeBlock(data []byte, at int64) (block, error) {
	var rec blockRecord
	before := headSize - recordSize
	if len(data) < headSize || string(data[:before]) != string((&block{}).header()[:before]) {
		return block{}, errNoBlock
	}
	if _, err := binary.Decode(data[before:headSize], binary.LittleEndian, &rec); err != nil || rec.Version != blockVersion {
		return block{}, errNoBlock
	}
	b := block{place: place{seq: rec.Last, begin: rec.Begin, end: rec.End, hash: hex.EncodeToString(rec.Hash[:])},
		first: rec.First, from: rec.From, prev: hex.EncodeToString(rec.Prev[:]), at: at, size: int64(rec.Size)}
	switch {
	case b.first < 1 || b.seq < b.first || b.from < 0 || b.begin < b.from || b.end-b.begin < 1 || b.end-b.begin > MaxLine+1 || b.size <= int64(headSize):
		return block{}, errNoBlock
	case b.first == 1 && b.from == 0 && rec.Prev == [hashLen / 2]byte{}:
		b.prev = ""
	}
	return b, nil
}

// readBlock reads the header of the member at the offset at.
func readBlock(f io.ReaderAt, at int64) (block, error) {
	data := make([]byte, headSize)
	if n, err := f.ReadAt(data, at); n < len(data) && err != io.EOF {
		return block{}, err
	} else if n < len(data) {
		return block{}, errNoBlock
	}
	return decodeBlock(data, at)
}

// readBlocks reads the headers of a segment of that many bytes. Each block has to follow the one before it, and the last
// one has to end with the file.
func readBlocks(f io.ReaderAt, size int64) (all []block, err error) {
	for at := int64(0); at < size; {
		b, err := readBlock(f, at)
		if err != nil {
			return nil, fmt.Errorf("at byte %d: %w", at, err)
		}
		if n := len(all); n > 0 && b.before() != all[n-1].follower() {
			return nil, fmt.Errorf("at byte %d: the block does not follow the one before it", at)
		}
		if at += b.size; at > size {
			return nil, fmt.Errorf("it has %d bytes, and its last block ends at byte %d", size, at)
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		return nil, errors.New("it is empty")
	}
	return all, nil
}

// lines returns a reader of the block's lines. It returns an error at the end unless the member holds as many bytes as
// its header says, is whole by its checksum, and nothing follows it in its place.
func (b *block) lines(f io.ReaderAt) (io.Reader, error) {
	raw := bufio.NewReader(io.NewSectionReader(f, b.at, b.size))
	in, err := gzip.NewReader(raw)
	if err != nil {
		return nil, err
	}
	in.Multistream(false)
	return &exactly{in: in, raw: raw, left: b.end - b.from}, nil
}

// exactly fails if in does not hold exactly left bytes, or does not use up raw.
type exactly struct {
	in   io.Reader
	raw  *bufio.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	e.left -= int64(n)
	if err == io.EOF && e.left == 0 {
		_, more := e.raw.Peek(1)
		if more == io.EOF {
			return n, err
		}
	}
	if e.left < 0 || err == io.EOF {
		return 0, errors.New("it does not hold what its header says")
	}
	return n, err
}

// writeSegment writes the lines behind a place, up to the line last, as the blocks of a segment. It checks each line as
// Verify does, and returns a *CorruptError for one that is not the writer's.
func writeSegment(to io.Writer, l *lines, last place, blockSize int64) error {
	var buf bytes.Buffer
	gz, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	if err != nil {
		return err
	}
	for l.last.seq < last.seq {
		buf.Reset()
		gz.Reset(&buf)
		b := block{first: l.last.seq + 1, from: l.last.end, prev: l.last.hash}
		gz.Extra = b.header()[headSize-extraSize:] // it keeps the place until the rest is known
		for l.last.seq < last.seq && l.last.end-b.from < blockSize {
			if err := l.next(true); err != nil {
				return err
			}
			if _, err := gz.Write(l.in.Bytes()); err != nil {
				return err
			}
		}
		if err := gz.Close(); err != nil {
			return err
		}
		b.place, b.size = l.last, int64(buf.Len())
		copy(buf.Bytes(), b.header())
		if _, err := to.Write(buf.Bytes()); err != nil {
			return err
		}
	}
	if l.last != last {
		return errors.New("the file does not hold the lines that were written to it")
	}
	return nil
}
