package mockapi

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// maxBody bounds a request's body, as it is sent and as it is unpacked.
const maxBody = 64 << 20

// Server answers model requests on a port of 127.0.0.1 that the system chose.
// Its methods may be called from any goroutine.
type Server struct {
	script   Script
	listener net.Listener
	http     *http.Server
	closing  chan struct{}
	served   sync.WaitGroup

	mu     sync.Mutex // guards what follows, and is held while script runs
	closed bool
	turns  int
	meter  meter
	calls  []*Record
	probes []Record
}

// Start starts a server; Close ends it.
func Start(script Script) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a port for the mock model server: %w", err)
	}
	s := &Server{script: script, listener: l, closing: make(chan struct{}), meter: meter{}}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: time.Minute}
	s.served.Add(1)
	go func() {
		defer s.served.Done()
		_ = s.http.Serve(l) // ends with the listener
	}()
	return s, nil
}

// URL is where the server is, without a slash at the end.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Close ends the server and all answers under way, those that hang too. It
// returns when nothing of it runs any more. Calling it again does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	var err error
	if first {
		close(s.closing)
		err = s.http.Close()
	}
	s.served.Wait()
	return err
}

// enter counts a request, unless the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.served.Add(1)
	}
	return !s.closed
}

// Calls are the model requests that were answered, in the order of their
// arrival. One that is still being answered is listed as it is planned, without
// an Outcome as long as its Delay lasts.
func (s *Server) Calls() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Record, len(s.calls))
	for i, r := range s.calls {
		list[i] = *r
	}
	return list
}

// Probes are all other requests: counting tokens, listing models, looking
// whether anybody is there, and what was not found.
func (s *Server) Probes() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.probes)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.served.Done()
	body, err := readBody(w, r)
	to := routeOf(r.Method, r.URL.Path)
	c := Call{API: to.api, Model: to.model, Path: r.URL.Path, Header: r.Header, Body: body, Authorization: authorized(r)}
	c.Stream = to.stream
	array := to.stream && r.URL.Query().Get("alt") != "sse"
	if to.kind != kindModel {
		s.probe(w, to, c, err)
		return
	}
	d := dialectOf(to.api)
	if err == nil {
		err = d.parse(&c)
	}
	a, record := s.decide(c, err)
	p := player{s: s, w: w, r: r, d: d, a: a, record: record}
	p.play(array)
}

// decide asks the script, in order, and puts the answer on record.
func (s *Server) decide(c Call, broken error) (answer, *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.N = len(s.calls) + 1
	c.Tools, c.Side = titles(c.offered), len(c.offered) == 0
	if !c.Side {
		s.turns++
	}
	c.Turn = s.turns
	var a answer
	err := broken
	if broken != nil {
		a, _ = decide(c, Reply{Status: http.StatusBadRequest, ErrorMessage: broken.Error()}, s.meter)
	} else if a, err = decide(c, s.script(c), s.meter); err != nil {
		a, _ = decide(c, Reply{Status: http.StatusInternalServerError, ErrorMessage: err.Error()}, s.meter)
	}
	r := &Record{N: c.N, API: c.API, Path: c.Path, Model: a.Model, Session: c.Session, Side: c.Side, Tools: c.Tools, Called: called(a.calls)}
	if err != nil {
		r.Error = err.Error()
	}
	s.calls = append(s.calls, r)
	return a, r
}

// note changes a record.
func (s *Server) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// readBody reads the whole body, unpacked.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var from io.Reader = http.MaxBytesReader(w, r.Body, maxBody)
	switch enc := r.Header.Get("Content-Encoding"); enc {
	case "", "identity":
	case "gzip":
		unpacked, err := gzip.NewReader(from)
		if err != nil {
			return nil, fmt.Errorf("unpacking the request: %w", err)
		}
		from = unpacked
	default:
		return nil, fmt.Errorf("the request is packed as %q, which this server cannot unpack", enc)
	}
	body, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errors.New("the request is too long")
	}
	return body, err
}

func authorized(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("X-Api-Key") != "" || r.Header.Get("X-Goog-Api-Key") != "" || r.URL.Query().Get("key") != ""
}

func dialectOf(api API) dialect {
	switch api {
	case Anthropic:
		return anthropic{}
	case OpenAI:
		return openai{}
	}
	return gemini{}
}
