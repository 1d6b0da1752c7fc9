package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// MaxLine is the length of the longest line, without its newline.
const MaxLine = 16 << 20

// Event is one line of a journal.
type Event struct {
	// Seq is given by Append: 1 for the first event, then one more each.
	Seq int64
	// Timestamp is kept in UTC and in whole milliseconds, rounded down.
	Timestamp time.Time
	Event     string
	LoopID    string
	RunID     string
	Iteration int
	// Fields are the event's own members: one JSON object, or nil.
	Fields json.RawMessage
	// Prev and Hash are given by Append.
	Prev, Hash string
}

// timeLayout is 24 bytes for every year that the format takes.
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

// AppendLine appends ev as one line, newline included, to dst. It computes the
// hash from the line and does not look at ev.Hash; Seq and Prev are taken as
// they are. It allocates nothing if dst has room.
//
// An event without a name or a time, or with Fields that are not one JSON object
// free of the envelope's names, is an error, and dst is returned as it was.
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
	b := append(dst, seqKey...)
	b = strconv.AppendInt(b, ev.Seq, 10)
	b = append(b, timeKey...)
	b = at.AppendFormat(b, timeLayout)
	b = append(b, eventKey...)
	b = appendText(b, ev.Event)
	b = append(b, loopKey...)
	b = appendText(b, ev.LoopID)
	b = append(b, runKey...)
	b = appendText(b, ev.RunID)
	b = append(b, iterKey...)
	b = strconv.AppendInt(b, int64(ev.Iteration), 10)
	b, err := appendFields(b, ev.Fields)
	if err != nil {
		return dst, fmt.Errorf("event %s: %w", ev.Event, err)
	}
	b = append(b, prevKey...)
	b = append(b, ev.Prev...)
	b = append(b, '"')
	sum := sha256.Sum256(b[len(dst):])
	b = append(b, hashKey[1:]...)
	b = hex.AppendEncode(b, sum[:])
	b = append(b, lineEnd...)
	if n := len(b) - len(dst); n > MaxLine {
		return dst, fmt.Errorf("event %s: its line has %d bytes, the longest is %d", ev.Event, n, MaxLine)
	}
	return append(b, '\n'), nil
}

// lineHash is the hash in the last line of b.
func lineHash(b []byte) string {
	end := len(b) - len(lineEnd) - 1
	return string(b[end-hashLen : end])
}

// isHash has no branches in its loop: the digits are random, so a processor would
// guess wrong at every other one, and reading a journal would take twice the time.
func isHash[T string | []byte](s T) bool {
	if len(s) != hashLen {
		return false
	}
	ok := uint32(1)
	for i := range len(s) {
		digit, letter := uint32(s[i]-'0'), uint32(s[i]-'a')
		ok &= (digit-10)>>31 | (letter-6)>>31 // the top bit is set if it is below
	}
	return ok == 1
}

// appendText appends the inside of a JSON string.
func appendText(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c < 0x20 || c == '"' || c == '\\' {
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, `\n`...)
			case '\r':
				dst = append(dst, `\r`...)
			case '\t':
				dst = append(dst, `\t`...)
			default:
				dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			}
			from = i + 1
		}
		i++
	}
	return append(dst, s[from:]...)
}
