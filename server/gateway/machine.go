package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/api"
	"github.com/superloop/superloop/server/signed"
)

// item is an entry of a list, as its machine tells it.
type item map[string]json.RawMessage

func (i item) text(name string) (s string) {
	_ = json.Unmarshal(i[name], &s) // what is no text is ""
	return s
}

// asOf returns the item with the time at which it was known.
func (i item) asOf(at time.Time) item {
	if i = maps.Clone(i); i == nil {
		i = item{}
	}
	i["as_of"], _ = json.Marshal(at) // a time can be encoded
	return i
}

// known is what was told of a machine. It is kept over restarts of the gateway, for when the machine is away.
type known struct {
	Machine   item            `json:"machine"` // as GET /api/v1/machines
	Rows      map[string]item `json:"rows"`    // by the ids of loops
	Questions map[string]item `json:"questions"`
	At        time.Time       `json:"at"`
}

// machine is a machine of the fleet, whether it is there or not.
type machine struct {
	g  *Gateway
	id string

	mu    sync.Mutex
	known known
	now   *line // nil: it is away
	kept  time.Time
	dirty bool
}

// line is the connection with a machine that is there.
type line struct {
	m        *machine
	conn     http.RoundTripper
	instance string
	gone     <-chan struct{}
}

// request is what is asked of a machine.
type request struct {
	method, target string
	head           http.Header
	body           []byte
	user           string
	confirmed, by  string
}

// passed are the headers of a client that a machine gets.
var passed = []string{"Accept", "Content-Type", "Range", "If-Range", "If-None-Match", "If-Modified-Since", "Last-Event-Id"}

// do sends a request, signed. The answer's body has to be closed.
func (l *line) do(ctx context.Context, q request) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, "http://machine"+q.target, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	for _, name := range passed {
		if v := q.head.Values(name); len(v) > 0 {
			r.Header[http.CanonicalHeaderKey(name)] = v
		}
	}
	mark, err := signed.Claim{Method: q.method, Target: r.URL.RequestURI(), Body: signed.Digest(q.body), Machine: l.m.id, Instance: l.instance, User: q.user, Confirmed: q.confirmed, ConfirmedBy: q.by}.Sign(l.m.g.o.Key, time.Now())
	if err != nil {
		return nil, err
	}
	r.Header.Set(signed.Header, mark)
	return l.conn.RoundTrip(r)
}

// get asks for JSON as the gateway itself.
func (l *line) get(ctx context.Context, target string, out any) error {
	res, err := l.do(ctx, request{method: http.MethodGet, target: target, user: "gateway"})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the machine answers %s: %s", res.Status, text.Cut(string(data), 200))
	}
	if err != nil {
		return err
	}
	return text.Decode(data, out)
}

// maxAnswer bounds an answer that is put together with others, in bytes.
const maxAnswer = 64 << 20

func (m *machine) link() *line {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// last returns what is known of the machine.
func (m *machine) last() known {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.known
	k.Rows, k.Questions = maps.Clone(k.Rows), maps.Clone(k.Questions)
	return k
}

func (m *machine) lastRow(id string) (item, bool) {
	k := m.last()
	row, ok := k.Rows[id]
	if !ok {
		return nil, false
	}
	return row.asOf(k.At), true
}

func (m *machine) lastQuestion(id string) (item, bool) {
	k := m.last()
	q, ok := k.Questions[id]
	if !ok {
		return nil, false
	}
	return q.asOf(k.At), true
}

// name is what people call the machine.
func (m *machine) name() string {
	if n := m.last().Machine.text("name"); n != "" {
		return text.Cut(text.Plain(n), 64) + " (" + m.id + ")"
	}
	return m.id
}

func (m *machine) hasRepo(repo string) bool {
	for _, row := range m.last().Rows {
		if row.text("repo") == repo {
			return true
		}
	}
	return false
}

// away answers what only the machine could answer.
func (m *machine) away(w http.ResponseWriter) {
	k := m.last()
	since := ""
	if !k.At.IsZero() {
		since = " since " + k.At.UTC().Format(time.RFC3339)
	}
	api.Refuse(w, http.StatusServiceUnavailable, "machine-away", fmt.Sprintf("machine %s is away%s: nothing was asked of it, and its loops are not touched; lists show what was known, other machines answer, and superloop's verbs work on the machine itself (superloop-fleet worker there brings it back)", m.name(), since))
}

// note takes a message of the machine's stream.
func (m *machine) note(msg message) {
	var v item
	if err := text.Decode(msg.data, &v); err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.At = time.Now().UTC()
	switch id := v.text("id"); msg.event {
	case "row":
		if own, _, _ := strings.Cut(id, "."); own == m.id { // it tells of its own loops only
			m.known.Rows[id], m.dirty = v, true
		}
	case "question":
		m.dirty = true
		if v.text("state") == "pending" && v.text("machine") == m.id {
			m.known.Questions[id] = v
		} else {
			delete(m.known.Questions, id)
		}
	case "gone":
		delete(m.known.Rows, v.text("loop_id"))
		m.dirty = true
	}
}

// follow keeps what is known of the machine while it is there.
func (m *machine) follow(ctx context.Context, l *line) {
	told := known{Rows: map[string]item{}, Questions: map[string]item{}}
	ready := false
	at := ""
	for ctx.Err() == nil {
		err := l.stream(ctx, at, false, func(msg message) error {
			if msg.id != "" {
				at = msg.id
			}
			m.note(msg)
			if !ready {
				m.mu.Lock()
				ready = msg.event == "ready"
				var v item
				_ = json.Unmarshal(msg.data, &v) // note has looked at it
				switch id := v.text("id"); {
				case ready: // what was not told is no more
					m.known.Rows, m.known.Questions = told.Rows, told.Questions
				case msg.event == "row" && m.known.Rows[id] != nil:
					told.Rows[id] = m.known.Rows[id]
				case msg.event == "question" && m.known.Questions[id] != nil:
					told.Questions[id] = m.known.Questions[id]
				}
				m.mu.Unlock()
			}
			m.keep(false)
			return nil
		})
		if ctx.Err() == nil {
			m.g.o.Log.Warn("the stream of a machine has ended; it is begun again", zap.String("machine", m.id), zap.Error(err))
			pause(ctx, time.Second)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// keepEvery is the time between two writes of what is known of a machine.
const keepEvery = 5 * time.Second

// keep writes down what is known, if it has changed.
func (m *machine) keep(now bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirty || !now && time.Since(m.kept) < keepEvery {
		return
	}
	m.kept, m.dirty = time.Now(), false
	data, err := json.Marshal(m.known)
	if err == nil {
		err = m.g.o.Disk.WriteFile("machine", filepath.Join(m.g.dir(), m.id+".json"), data, 0o600)
	}
	if err != nil {
		m.g.o.Log.Warn("what is known of a machine is not kept", zap.String("machine", m.id), zap.Error(err))
	}
}

func (g *Gateway) dir() string { return filepath.Join(g.o.State, "machines") }

// load reads what the last gateway knew.
func (g *Gateway) load() error {
	if err := g.o.Disk.MkdirAll("machine", g.dir(), 0o700); err != nil {
		return err
	}
	files, err := os.ReadDir(g.dir())
	if err != nil {
		return err
	}
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok || durable.IsTemp(f.Name()) {
			continue
		}
		data, err := door.Read(filepath.Join(g.dir(), f.Name()), maxAnswer)
		var k known
		if err == nil {
			k, err = knownOf(data)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			g.o.Log.Warn("what was known of a machine is left out", zap.String("machine", id), zap.Error(err))
		default:
			g.machines[id] = &machine{g: g, id: id, known: k}
		}
	}
	return nil
}

// knownOf decodes what is known of a machine.
func knownOf(data []byte) (k known, err error) {
	err = text.Decode(data, &k)
	for _, m := range []*map[string]item{&k.Rows, &k.Questions} {
		if *m == nil {
			*m = map[string]item{}
		}
		maps.DeleteFunc(*m, func(_ string, v item) bool { return v == nil })
	}
	return k, err
}

// byID returns items in the order of their ids.
func byID(m map[string]item) []item {
	var out []item
	for _, id := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[id])
	}
	return out
}
