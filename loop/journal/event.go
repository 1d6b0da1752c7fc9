// Package journal keeps events.jsonl, which is the truth about a loop, and projections: files that are computed from
// it.
//
// # Format
//
// A journal is a sequence of lines. They are in its file, the active file, and in the segments that were sealed before.
// Each line is one JSON object and ends with one newline (0x0A); there is no other white
// space outside strings. The file is UTF-8. A line is at most 16 MiB long, its newline not counted.
//
// A line has these members, in this order, each exactly once:
//
//	seq        integer, 1 in the first line, one more in each further line
//	timestamp  RFC 3339, UTC, always 24 bytes: 2006-01-02T15:04:05.000Z
//	event      string, not empty
//	loop_id    string
//	run_id     string
//	iteration  integer, 0 or more
//	...        the event's own members, none or more
//	prev       string: the hash of the line before, "" in the first line
//	hash       string: 64 lower-case hexadecimal digits
//
// Integers have no sign and no leading zero. No own member has the name of one of the eight others, in whatever case.
// So a reader finds prev and hash by counting from the end of the line, and the first six members by reading from its
// start. It does not have to parse the own members.
//
// hash is the SHA-256 of the line's bytes from the first "{" up to, and without, the last `,"hash":` of the line. As
// prev is among these bytes, each hash covers the line and all lines before it.
//
// In strings the writer escapes `"`, `\` and the bytes below 0x20 (as \n, \r, \t or \u00XX), and nothing else. It
// writes a byte that is not UTF-8 as U+FFFD, and the hash is computed from that.
//
// # Writing
//
// The writer appends lines and never changes them. It writes lines that belong together (a group) with one write(2). A
// crash may cut a group anywhere, so any prefix of it may be in the file. A group that was appended with sync is on the
// disk when Append returns.
//
// # Repair
//
// A crash in the middle of an append leaves a torn end: bytes without a newline, or, after a power cut, one last line
// with NUL bytes where a page did not reach the disk. Open copies a torn end to "<path>.broken-<offset>" and cuts it
// off. Open repairs nothing else. A whole line that does not fit the chain is corruption, whatever follows it, and Open
// refuses the journal (CorruptError).
//
// # Segments
//
// Seal moves the lines of the active file to a new segment: "<path>.segments/000001.gz" and so on, without a gap. The
// lines are the same, byte for byte, so a segment followed by the next one and by the active file is the journal as if it
// had never been sealed, and the chain goes through all of them. Offsets in this package, also that of the head, count
// the bytes of all lines. Only the name of a file with a torn end has an offset in the active file.
//
// A segment is a gzip file. Each of its members is a block of whole lines, of 1 MiB or a little more. Its header has the
// extra subfield "SL" with a blockRecord: the member's size, and number, offset and hashes of the first and the last
// line. A reader goes from header to header, and decompresses only the block in which it begins and those behind it.
//
// The segment is on the disk before an empty file replaces the active file. If both have the same lines, because the
// sealing was interrupted, the active file counts: readers leave the segment out, and Open removes it. A reader that
// meets a sealing goes on in the segment with the line behind the last one that it has read.
//
// A segment that is missing, or cannot be read, or holds other lines, is corruption like a bad line: a CorruptError names
// its file. What is found when: Open reads all segments, and either knows their digest or checks every line, see Open.
// Verify checks every line, and whether the headers fit them. Read and Tail check what they decompress by its checksum,
// its number and its prev. Nobody but Open and CheckHead can see that the last segments are missing together with all
// lines behind them.
//
// # Head
//
// The chain shows that a line was changed. But a program that can write the file can also cut lines off its end, or
// write a new chain. So the writer keeps an anchor, the head, where agents must not reach (Options.Head): position and
// hash of the last line that is on the disk. The writer stores the anchor after the flush of the line, so the anchor
// never names a line that a crash can remove. It does not flush the anchor, so after a power cut the anchor may name an
// older line than the last. Open refuses a journal that does not hold the line of the anchor at its place
// (TamperedError).
//
// The file of the anchor is a durable.Slots. Its record has 57 bytes: 1 byte version (1), and, little-endian, 8 bytes
// seq, 8 bytes offset of the line's first byte, 8 bytes offset behind its newline (the file's size at that time),
// 32 bytes hash.
package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
)

// MaxLine is the length of the longest line, without its newline.
const MaxLine = 16 << 20

// Event is one line of a journal.
type Event struct {
	// Seq is set by Append: 1 for the first event, then one more for each event.
	Seq int64
	// Timestamp is kept in UTC and in whole milliseconds, rounded down.
	Timestamp time.Time
	Event     string
	LoopID    string
	RunID     string
	Iteration int
	// Fields are the event's own members: one JSON object, or nil.
	Fields json.RawMessage
	// Prev and Hash are set by Append.
	Prev, Hash string
}

// timeLayout gives 24 bytes for every year from 0 to 9999.
const timeLayout = "2006-01-02T15:04:05.000Z"

const (
	hashLen    = 2 * sha256.Size
	seqKey     = `{"seq":`
	timeKey    = `,"timestamp":"`
	eventKey   = `","event":"`
	loopKey    = `","loop_id":"`
	runKey     = `","run_id":"`
	iterKey    = `","iteration":`
	prevKey    = `,"prev":"`
	hashKey    = `","hash":"`
	lineEnd    = `"}`
	trailerLen = len(hashKey) + hashLen + len(lineEnd)
)

// AppendLine appends ev to dst as one line with its newline. It computes the hash from the line and ignores ev.Hash. It
// writes Seq and Prev as they are. It allocates nothing if dst has room.
//
// AppendLine returns an error and an unchanged dst if ev has no name, no valid time, number or prev, or Fields that are
// no JSON object or use the envelope's names, and if the line is longer than MaxLine.
func AppendLine(dst []byte, ev Event) ([]byte, error) {
	at := ev.Timestamp.UTC()
	switch {
	case ev.Event == "":
		return dst, errors.New("an event has no name")
	case ev.Timestamp.IsZero() || at.Year() < 0 || at.Year() > 9999:
		return dst, fmt.Errorf("event %s: %s is no time for the journal", ev.Event, at)
	case ev.Seq < 1 || ev.Iteration < 0 || ev.Iteration > math.MaxInt32:
		return dst, fmt.Errorf("event %s: seq %d, iteration %d", ev.Event, ev.Seq, ev.Iteration)
	case ev.Prev != "" && !isHash(ev.Prev):
		return dst, fmt.Errorf("event %s: prev is %.80q, no hash", ev.Event, ev.Prev)
	}
	b := strconv.AppendInt(append(dst, seqKey...), ev.Seq, 10)
	b = at.AppendFormat(append(b, timeKey...), timeLayout)
	b = appendText(append(b, eventKey...), ev.Event)
	b = appendText(append(b, loopKey...), ev.LoopID)
	b = appendText(append(b, runKey...), ev.RunID)
	b = strconv.AppendInt(append(b, iterKey...), int64(ev.Iteration), 10)
	b, err := appendFields(b, ev.Fields)
	if err != nil {
		return dst, fmt.Errorf("event %s: %w", ev.Event, err)
	}
	b = append(append(append(b, prevKey...), ev.Prev...), '"')
	sum := sha256.Sum256(b[len(dst):])
	b = append(hex.AppendEncode(append(b, hashKey[1:]...), sum[:]), lineEnd...)
	if n := len(b) - len(dst); n > MaxLine {
		return dst, fmt.Errorf("event %s: its line has %d bytes, the longest is %d", ev.Event, n, MaxLine)
	}
	return append(b, '\n'), nil
}

// lineHash returns the hash in the last line of b.
func lineHash(b []byte) string {
	end := len(b) - len(lineEnd) - 1
	return string(b[end-hashLen : end])
}

func isHash[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i]-'0' > 9 && s[i]-'a' > 5 {
			return false
		}
	}
	return len(s) == hashLen
}

// appendText appends s as the inside of a JSON string. It writes U+FFFD for a byte that is not UTF-8.
func appendText(dst []byte, s string) []byte {
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return dst
}

// appendFields appends the members of the JSON object raw, each after a comma, without white space and as valid UTF-8.
func appendFields(dst []byte, raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return dst, nil
	}
	if !json.Valid(raw) {
		return dst, errors.New("its fields are not valid JSON")
	}
	if raw = bytes.TrimSpace(raw); raw[0] != '{' {
		return dst, errors.New("its fields are not a JSON object")
	}
	start := len(dst)
	depth, key := 0, false // key says that the next string is a name of the outermost object
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			begin := i
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			text := raw[begin : i+1]
			if key {
				if err := checkName(text); err != nil {
					return dst[:start], err
				}
				key = false
			}
			if utf8.Valid(text) {
				dst = append(dst, text...)
			} else {
				dst = append(dst, string([]rune(string(text)))...)
			}
			continue
		case '{', '[':
			if depth++; depth == 1 {
				c, key = ',', true
			}
		case '}', ']':
			if depth--; depth == 0 {
				continue
			}
		case ',':
			key = depth == 1
		}
		dst = append(dst, c)
	}
	if len(dst) == start+1 { // an empty object
		dst = dst[:start]
	}
	return dst, nil
}

var envelope = []string{"seq", "timestamp", "event", "loop_id", "run_id", "iteration", "prev", "hash"}

// checkName refuses the envelope's names in any case of letters, because a decoder would take such a field for the
// envelope's.
func checkName(quoted []byte) error {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		var s string
		if err := text.Decode(quoted, &s); err != nil {
			return fmt.Errorf("its field %s: %w", quoted, err)
		}
		name = []byte(s)
	}
	for _, of := range envelope {
		if bytes.EqualFold(name, []byte(of)) {
			return fmt.Errorf("its field %s has a name of the envelope", quoted)
		}
	}
	return nil
}
