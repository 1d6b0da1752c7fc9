package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/server/registry"
)

// world is a handler over a repository with a loop, whose verbs answer what a test wants.
type world struct {
	handler http.Handler
	id      string
	says    []byte // what the next verb prints
	exit    int    // and its exit code
}

func newWorld(t testing.TB, dir string) *world {
	t.Helper()
	w := &world{}
	repo, state := filepath.Join(dir, "repo"), filepath.Join(dir, "state", "superloop")
	at := filepath.Join(repo, ".superloop", "loops", "l")
	if err := errors.Join(os.MkdirAll(at, 0o700), os.MkdirAll(filepath.Join(state, "daemon"), 0o700)); err != nil {
		t.Fatal(err)
	}
	store := registry.Store{Disk: durable.OS(), State: state}
	e, err := store.Locate(registry.Entry{Repo: repo, Loop: "l", Wanted: registry.Stopped})
	if err == nil {
		err = store.Put(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.id = e.ID()
	h, err := New(Options{State: state, Disk: durable.OS(), Version: "test", Log: zap.NewNop(),
		Start: func(context.Context, registry.Entry) error { return errors.New("not here") },
		Verb: func(context.Context, VerbCall) ([]byte, error) {
			if w.exit == 0 {
				return w.says, nil
			}
			return w.says, &Refused{Exit: w.exit, Err: errors.New("no")}
		},
		Metrics: func(map[string]string) []byte { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	w.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		me := &caller{peer: peer{PID: os.Getpid(), UID: os.Getuid(), User: "ann"}} // as over the socket
		h.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), callerKey{}, me)))
	})
	return w
}

// described returns the methods and paths of the description.
func (w *world) described(t testing.TB) (ops [][2]string) {
	t.Helper()
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, httptest.NewRequest("GET", "/api/v1/openapi.json", nil))
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			ops = append(ops, [2]string{strings.ToUpper(method), path})
		}
	}
	slices.SortFunc(ops, func(x, y [2]string) int { return strings.Compare(x[1]+x[0], y[1]+y[0]) })
	return ops
}

// FuzzAPI: whatever a client sends, and whatever a verb prints, the answer is one of the described ones: no panic, and no
// 5xx but those that say what the daemon lacks.
func FuzzAPI(f *testing.F) {
	w := newWorld(f, f.TempDir())
	ops := w.described(f)
	for i := range ops {
		f.Add(uint8(i), "l", "", "", []byte(`{}`), []byte(`{}`), uint8(0))
		f.Add(uint8(i), "x", "limit=1&cursor=a&after=1&step=1h&by=loop&repo=%2F&state=all", "AQ", []byte(`{"repo":"/r","loop":"l","method":"choose","digest":"00000000","option":"x","command":"y"}`), []byte(`null`), uint8(4))
	}
	f.Fuzz(func(t *testing.T, op uint8, id, query, last string, send, says []byte, exit uint8) {
		w.says, w.exit = says, int(exit)
		if id == "l" {
			id = w.id
		}
		id = url.PathEscape(id)
		to := ops[int(op)%len(ops)]
		path := strings.NewReplacer("{id}", id, "{eid}", id, "{cid}", id, "{role}", id, "{name}", id, "{n}", "1").Replace(to[1])
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond) // a stream ends with its client
		defer stop()
		at, err := url.ParseRequestURI(path)
		if err != nil {
			t.Skip("it is no address")
		}
		at.RawQuery = query
		r := (&http.Request{Method: to[0], URL: at, Host: "x", Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(send)), ContentLength: int64(len(send))}).WithContext(ctx)
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
			r.Header.Set("Range", last)
		}
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		switch {
		case rec.Code == http.StatusServiceUnavailable || rec.Code == http.StatusInsufficientStorage:
			if !strings.Contains(rec.Body.String(), "urn:superloop:") {
				t.Errorf("%s %s: %d without a reason: %s", to[0], at, rec.Code, rec.Body)
			}
		case rec.Code >= 500:
			t.Errorf("%s %s %q: %d %s", to[0], at, send, rec.Code, rec.Body)
		case strings.HasPrefix(rec.Header().Get("Content-Type"), "application/json") && !json.Valid(rec.Body.Bytes()):
			t.Errorf("%s %s: no JSON: %s", to[0], at, rec.Body)
		}
	})
}

// FuzzPlaces: the id of a message is where the client was, and anything else is refused.
func FuzzPlaces(f *testing.F) {
	f.Add(places{keyOf("a"): placeOf(3, "00112233"), keyOf("b"): placeOf(1<<40, "ff")}.String())
	f.Add("AQ")
	f.Add("%")
	f.Fuzz(func(t *testing.T, id string) {
		p, err := parsePlaces(id)
		if err != nil {
			return
		}
		again, err := parsePlaces(p.String())
		if err != nil || len(again) != len(p) {
			t.Fatalf("%v: %v", p, err)
		}
		for k, at := range p {
			if again[k] != at {
				t.Errorf("%v is %v", at, again[k])
			}
		}
	})
}
