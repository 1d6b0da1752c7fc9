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

// AppendLine appends ev as one line, newline included, to dst. It computes the hash from the line and does not look at
// ev.Hash; Seq and Prev are taken as they are. It allocates nothing if dst has room.
//
// An event without a name or a time, or with Fields that are not one JSON object free of the envelope's names, is an
// error, and dst is returned as it was.
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

// lineHash is the hash in the last line of b.
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

// appendText appends the inside of a JSON string; what is not UTF-8 is U+FFFD.
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

// appendFields appends the members of the object raw, each after a comma, without white space and as valid UTF-8.
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
	depth, key := 0, false // key: the next string is a name of the outermost object
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

// checkName refuses the envelope's names: jq and every decoder would take the own field for the envelope's, Go's in any
// case of letters.
func checkName(quoted []byte) error {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		var s string
		if err := json.Unmarshal(quoted, &s); err != nil {
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
