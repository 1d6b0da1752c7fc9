package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/superloop/superloop/loop/journal"
)

// key stands for a loop in the id of a message: the beginning of a digest of the loop's id.
type key [6]byte

func keyOf(id string) key {
	sum := sha256.Sum256([]byte(id))
	return key(sum[:6])
}

// place is an event of a journal: its number, and the beginning of its hash, by which the journal of another run of the
// loop is told apart.
type place struct {
	seq  int64
	hash [4]byte
}

func placeOf(seq int64, hash string) (p place) {
	p.seq = seq
	raw, _ := hex.DecodeString(hash) // journal has checked it
	copy(p.hash[:], raw)
	return p
}

// holds reports whether a journal has the event of a place.
func holds(path string, at place) (is bool) {
	_ = journal.Read(path, at.seq, func(ev journal.Event) error { // with an error it does not
		is = ev.Seq == at.seq && placeOf(ev.Seq, ev.Hash) == at
		return journal.ErrStop
	})
	return is
}

// places say where a client of the stream of everything is in each journal. As the id of a message they are a number of
// entries of 11 to 19 bytes behind a version, in base64: 3 KiB for 200 loops.
type places map[key]place

const placesVersion = 1

// String returns the id of a message.
func (p places) String() string {
	raw := append(make([]byte, 0, 1+len(p)*(len(key{})+len(place{}.hash)+binary.MaxVarintLen64)), placesVersion)
	for k, at := range p {
		raw = append(raw, k[:]...)
		raw = append(raw, at.hash[:]...)
		raw = binary.AppendUvarint(raw, uint64(at.seq))
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parsePlaces reads the id of a message. "" is nowhere.
func parsePlaces(id string) (places, error) {
	p := places{}
	if id == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(raw) == 0 || raw[0] != placesVersion {
		return nil, errors.New("it is not the id of a message of this stream")
	}
	for raw = raw[1:]; len(raw) > 0; {
		var k key
		var at place
		if len(raw) < len(k)+len(at.hash) {
			return nil, errors.New("it is cut short")
		}
		raw = raw[copy(k[:], raw):]
		raw = raw[copy(at.hash[:], raw):]
		seq, n := binary.Uvarint(raw)
		if n <= 0 || seq == 0 || seq > 1<<53 {
			return nil, errors.New("it names no event")
		}
		at.seq, raw = int64(seq), raw[n:]
		p[k] = at
	}
	return p, nil
}

// end puts the client behind the last event of a journal.
func (p places) end(id, path string) {
	if last, err := journal.Tail(path, 1); err == nil && len(last) == 1 { // else it has none
		p[keyOf(id)] = placeOf(last[0].Seq, last[0].Hash)
	}
}

// marks are the loops in which something has changed. Its methods are safe for concurrent use.
type marks struct {
	mu   sync.Mutex
	of   map[string]bool
	wake chan<- struct{}
}

// What changes besides loops, whose ids look otherwise.
const (
	registryMark = "the registry"
	viewMark     = "the view"
)

// mark notes a change. It returns false, because nobody waits for the channel of the watch.
func (m *marks) mark(id string) bool {
	m.mu.Lock()
	if m.of == nil {
		m.of = map[string]bool{}
	}
	m.of[id] = true
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return false
}

func (m *marks) on(id string) func(string) bool { return func(string) bool { return m.mark(id) } }

func (m *marks) take() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.of
	m.of = nil
	return of
}

// messages writes server-sent events.
type messages struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// encode writes JSON in one line, without escapes for HTML.
func encode(data any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(data)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// send writes a message, which the client has after the next flush at the latest. It waits until the system takes it, for
// limits.take at most. A message with an id is one behind which a client can continue.
func (m *messages) send(id, event string, data any) error {
	line, err := encode(data)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", event, line)
	_, err = m.w.Write(b.Bytes())
	return err
}

func (m *messages) comment() error {
	_, err := io.WriteString(m.w, ":\n\n")
	return err
}

func (m *messages) flush() error {
	err := m.control.Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
