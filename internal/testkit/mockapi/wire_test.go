package mockapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// event is one server-sent event, read as a client reads it.
type event struct {
	name string
	data map[string]any
}

func start(t *testing.T, script Script) *Server {
	t.Helper()
	s, err := Start(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask posts body, which is JSON, with a key.
func ask(t *testing.T, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func readEvents(t *testing.T, r io.Reader) (list []event, err error) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var ev event
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		switch {
		case strings.HasPrefix(line, "event: "):
			ev.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[len("data: "):]), &ev.data); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
		case line == "":
			list = append(list, ev)
			ev = event{}
		default:
			t.Fatalf("a line that is neither an event nor data: %q", line)
		}
	}
	return list, lines.Err()
}

// decode reads a JSON body.
func decode(t *testing.T, res *http.Response) map[string]any {
	t.Helper()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

// at walks into decoded JSON: names for objects, numbers for arrays.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("%v: no object at %v but %v", path, key, v)
			}
			v = m[key]
		case int:
			l, ok := v.([]any)
			if !ok || key >= len(l) {
				t.Fatalf("%v: no element %d in %v", path, key, v)
			}
			v = l[key]
		}
	}
	return v
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if !bytes.Equal(g, w) {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// one is the only call on record.
func one(t *testing.T, s *Server) Record {
	t.Helper()
	calls := s.Calls()
	if len(calls) != 1 {
		t.Fatalf("%d calls on record, want 1: %+v", len(calls), calls)
	}
	return calls[0]
}
