package mockapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// tests closes the client's idle connections, which are not ours, before the
// leak check.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer http.DefaultClient.CloseIdleConnections()
	return t.M.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// TestHang: the client sees as much as it should, and Close does not wait.
func TestHang(t *testing.T) {
	for _, c := range []struct {
		reply   Reply
		headers bool
		events  int
		status  int
	}{
		{Reply{Hang: HangBeforeHeaders}, false, 0, 0},
		{Reply{Hang: HangMidStream, CutAfter: 3, Text: "some words here", Usage: Usage{Input: 5, Output: 6}}, true, 3, 200},
		{Reply{Hang: HangMidStream, Text: "word", Usage: Usage{Input: 5, Output: 6}}, true, 3, 200},
	} {
		t.Run(fmt.Sprint(c.reply.Hang, c.reply.CutAfter), func(t *testing.T) {
			arrived := make(chan struct{}, 1)
			s := start(t, func(Call) Reply { arrived <- struct{}{}; return c.reply })
			headers, events, end := make(chan bool, 1), make(chan struct{}, 100), make(chan struct{})
			go func() {
				defer close(end)
				res, err := http.Post(s.URL()+"/v1/messages", "application/json", strings.NewReader(anthropicAsk("true")))
				headers <- err == nil
				if err != nil {
					return
				}
				defer res.Body.Close()
				lines := bufio.NewScanner(res.Body)
				for lines.Scan() {
					if lines.Text() == "" {
						events <- struct{}{}
					}
				}
				if lines.Err() == nil {
					t.Error("the stream ended as if all was well")
				}
			}()
			<-arrived
			if c.headers && !<-headers {
				t.Error("no headers came")
			}
			for range c.events {
				<-events
			}
			waitFor(t, func() bool { return one(t, s).Outcome == Hung })
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if <-end; len(events) > 0 {
				t.Errorf("%d events too many", len(events))
			}
			r := one(t, s)
			same(t, "record", []any{r.Status, r.Outcome, r.Usage}, []any{c.status, Hung, Usage{}})
		})
	}
}

// waitFor yields until the server has come so far.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("it did not come")
		}
	}
}

func TestCut(t *testing.T) {
	s := start(t, Always(Reply{Text: strings.Repeat("word ", 40), CutAfter: 4, Usage: Usage{Input: 8, Output: 9}}))
	events, err := readEvents(t, ask(t, s.URL()+"/v1/messages", anthropicAsk("true")).Body)
	if err == nil || len(events) != 4 {
		t.Errorf("%d events and then %v", len(events), err)
	}
	r := one(t, s)
	same(t, "record", []any{r.Status, r.Outcome, r.Usage}, []any{200, Cut, Usage{}})
	// Without a stream, bytes are cut; and never all of them are sent.
	for after, want := range map[int]int{7: 7, 1 << 20: -1} {
		s := start(t, Always(Reply{Text: "x", CutAfter: after}))
		raw, err := io.ReadAll(ask(t, s.URL()+"/v1/messages", anthropicAsk("false")).Body)
		if err == nil || want >= 0 && len(raw) != want || bytes.HasSuffix(raw, []byte("}}")) {
			t.Errorf("cut after %d: %d bytes, %v: %s", after, len(raw), err, raw)
		}
	}
}

// TestClientLeaves: what the server would have told does not count.
func TestClientLeaves(t *testing.T) {
	arrived := make(chan struct{}, 1)
	s := start(t, func(Call) Reply { arrived <- struct{}{}; return Reply{Text: "late", Delay: time.Hour} })
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/v1/messages", strings.NewReader(anthropicAsk("true")))
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			t.Error("an answer came before its time")
		}
	}()
	<-arrived
	leave()
	<-gone
	waitFor(t, func() bool { return one(t, s).Outcome == Left })
	same(t, "usage", one(t, s).Usage, Usage{})
}

func TestDelayPasses(t *testing.T) {
	s := start(t, Always(Reply{Text: "late", Delay: 30 * time.Millisecond}))
	began := time.Now()
	if _, err := readEvents(t, ask(t, s.URL()+"/v1/messages", anthropicAsk("true")).Body); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d < 30*time.Millisecond {
		t.Errorf("it took only %s", d)
	}
}

// TestManyAtOnce: the script is never asked twice at a time, and every answer
// is on record.
func TestManyAtOnce(t *testing.T) {
	busy, next := false, 1
	s := start(t, func(c Call) Reply {
		if busy || c.N != next {
			t.Errorf("call %d while expecting %d, busy %v", c.N, next, busy)
		}
		busy, next = true, next+1
		defer func() { busy = false }()
		return Reply{Text: fmt.Sprint(c.N)}
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			res, err := http.Post(s.URL()+"/v1/messages", "application/json", strings.NewReader(anthropicAsk("false")))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		})
	}
	wg.Wait()
	if u, n := Total(s.Calls()); n != 20 || u.Output != 20 {
		t.Errorf("%d answers, %+v", n, u)
	}
}

// TestWrongRequests are answered in the API's own words, and recorded.
func TestWrongRequests(t *testing.T) {
	s := start(t, Always(Reply{Text: "x"}))
	for path, bodies := range map[string][]string{
		"/v1/messages":                 {"", "{", "[]", `{"model":"m"}`, `{"messages":[{"role":"user","content":"x"}]}`},
		"/v1/responses":                {"{", `{"model":"m"}`, `{"model":"m","input":{"no":"list"}}`},
		geminiPath + "generateContent": {"{", "{}"},
	} {
		for _, body := range bodies {
			res := ask(t, s.URL()+path, body)
			if res.StatusCode != 400 || at(t, decode(t, res), "error", "message") == "" {
				t.Errorf("%s %q: %d", path, body, res.StatusCode)
			}
		}
	}
	calls := s.Calls()
	if len(calls) != 10 {
		t.Errorf("%d on record", len(calls))
	}
	for _, r := range calls {
		if r.Outcome != Failed || r.Error == "" || r.Status != 400 {
			t.Errorf("%+v", r)
		}
	}
}

// TestNoToolFits: the script's mistake is an error that the record shows.
func TestNoToolFits(t *testing.T) {
	for want, tool := range map[string]Tool{
		"no tool that writes": {Write: &File{"/a", "x"}}, "no tool that runs": {Shell: "ls"}, `no tool "Nap"`: {Name: "Nap"}, "says neither": {},
	} {
		s := start(t, Always(Reply{Tools: []Tool{tool}}))
		res := ask(t, s.URL()+"/v1/messages", `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"name":"Read","input_schema":{}}]}`)
		r := one(t, s)
		if res.StatusCode != 500 || r.Outcome != Failed || !strings.Contains(r.Error, want) {
			t.Errorf("%d %+v", res.StatusCode, r)
		}
	}
	s := start(t, Always(Reply{InStream: true}))
	if ask(t, s.URL()+"/v1/messages", anthropicAsk("false")); !strings.Contains(one(t, s).Error, "does not stream") {
		t.Errorf("%+v", one(t, s))
	}
}

func TestProbes(t *testing.T) {
	s := start(t, Always(Reply{}))
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"HEAD", "/", "", 200, ""},
		{"GET", "/", "", 200, ""},
		{"GET", "/v1/models?limit=3", "", 200, `"data":[]`},
		{"POST", "/v1/messages/count_tokens", strings.Repeat("x", 41), 200, `"input_tokens":11`},
		{"POST", geminiPath + "countTokens", "12345678", 200, `"totalTokens":2`},
		{"POST", "/v2/anything", "", 404, "no such path"},
		{"DELETE", "/v1/messages", "", 404, "no such path"},
		{"POST", geminiPath + "predict", "", 404, "no such path"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.URL()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(string(raw), c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.StatusCode, raw)
		}
	}
	if n := len(s.Probes()); n != 8 || len(s.Calls()) != 0 {
		t.Errorf("%d probes, %d calls", n, len(s.Calls()))
	}
}

func TestPackedRequest(t *testing.T) {
	s := start(t, Always(Reply{Text: "x"}))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(anthropicAsk("false")))
	_ = z.Close()
	for encoding, want := range map[string]int{"gzip": 200, "zstd": 400} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/messages", bytes.NewReader(packed.Bytes()))
		req.Header.Set("Content-Encoding", encoding)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d", encoding, res.StatusCode)
		}
	}
}

func TestErrorBody(t *testing.T) {
	s := start(t, Always(Reply{Status: 502, ErrorBody: "<html>Bad gateway</html>", Header: http.Header{"content-type": {"text/html"}}}))
	res := ask(t, s.URL()+"/v1/messages", anthropicAsk("true"))
	raw, _ := io.ReadAll(res.Body)
	same(t, "body", []string{string(raw), res.Header.Get("Content-Type")}, []string{"<html>Bad gateway</html>", "text/html"})
}
