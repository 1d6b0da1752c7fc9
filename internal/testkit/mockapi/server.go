// Package mockapi is a loopback server that plays model APIs, so faithfully that the real agent CLIs run against it. It
// plays Anthropic Messages, OpenAI Responses and Google Gemini, all on one port of 127.0.0.1.
//
//	POST /v1/messages                                   Anthropic, streaming or not
//	POST /v1/messages/count_tokens
//	POST /v1/responses                                  OpenAI, streaming or not
//	POST /v1beta/models/MODEL:generateContent           Gemini
//	POST /v1beta/models/MODEL:streamGenerateContent     server-sent events
//	POST /v1beta/models/MODEL:countTokens
//	GET  /v1/models, GET or HEAD of /                   what CLIs ask before they begin
//
// Gemini's paths also work under /v1 and /v1alpha. Every other path is answered with 404. The server never checks a
// key.
//
// A Script plays the model: it gets a Call and returns a Reply, in terms that all APIs share. A Tool that writes a file
// or runs a command becomes a call of a tool that the request offers, under the name and in the form in which the CLI
// offers it. If no offered tool fits, the reply is an error 500, and the Record says why. Calls returns every model
// request that was answered, with exactly the usage that the server reported to the CLI.
package mockapi

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxBody is the largest body of a request in bytes, both as it is sent and after it is unpacked.
const maxBody = 64 << 20

// Server answers model requests on a free port of 127.0.0.1. Any goroutine may call its methods.
type Server struct {
	script   Script
	listener net.Listener
	http     *http.Server
	closing  chan struct{}
	served   sync.WaitGroup

	mu     sync.Mutex // guards the fields below; held while script runs
	closed bool
	turns  int
	meter  meter
	calls  []*Record
	probes []Record
}

// Start starts a server. Close ends it.
func Start(script Script) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a port for the mock model server: %w", err)
	}
	s := &Server{script: script, listener: l, closing: make(chan struct{}), meter: meter{}}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: time.Minute}
	s.served.Go(func() { _ = s.http.Serve(l) }) // Serve returns when Close closes the listener
	return s, nil
}

// URL returns the address of the server, without a slash at the end.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Close ends the server and all answers under way, including those that hang. It returns when no goroutine of the
// server runs any more. A second call does nothing.
func (s *Server) Close() (err error) {
	var again bool
	if s.note(func() { again, s.closed = s.closed, true }); !again {
		close(s.closing)
		err = s.http.Close()
	}
	s.served.Wait()
	return err
}

// Calls returns the model requests that were answered, in the order of their arrival. A request that is still being
// answered is listed with the planned outcome, or with an empty one as long as its Delay lasts.
func (s *Server) Calls() (list []Record) {
	s.note(func() {
		for _, r := range s.calls {
			list = append(list, *r)
		}
	})
	return list
}

// Probes returns all other requests: for counts of tokens, for lists of models, for a sign of life, and for unknown
// paths.
func (s *Server) Probes() (list []Record) {
	s.note(func() { list = slices.Clone(s.probes) })
	return list
}

// route interprets the path of a request. A model request gets a dialect, every other known request a body, which may
// be nil. The path of a Gemini request also holds the model and says whether the answer is streamed. Repeated slashes
// do not matter, because a base URL may end with one.
func (c *Call) route(method string) (d dialect, body object, found bool) {
	parts := strings.FieldsFunc(c.Path, func(r rune) bool { return r == '/' })
	clean, get, n := strings.Join(parts, "/"), method == http.MethodGet || method == http.MethodHead, tokens(len(c.Body))
	// Each API has its own name for the list and for the count, and clients ignore the names of the other APIs.
	count := object{"totalTokens": n, "input_tokens": n}
	switch {
	case get && clean == "":
		return nil, nil, true
	case get && len(parts) == 2 && parts[1] == "models":
		return nil, object{"object": "list", "data": []object{}, "models": []object{}, "has_more": false}, true
	case method != http.MethodPost:
		return nil, nil, false
	case clean == "v1/messages":
		c.API = Anthropic
		return anthropic{}, nil, true
	case clean == "v1/messages/count_tokens":
		c.API = Anthropic
		return nil, count, true
	case clean == "v1/responses":
		c.API = OpenAI
		return openai{}, nil, true
	case len(parts) != 3 || parts[1] != "models" || !strings.HasPrefix(parts[0], "v1"):
		return nil, nil, false
	}
	model, verb, _ := strings.Cut(parts[2], ":")
	c.API, c.Model, c.Stream = Gemini, model, verb == "streamGenerateContent"
	switch verb {
	case "streamGenerateContent", "generateContent":
		return gemini{}, nil, true
	case "countTokens":
		return nil, count, true
	}
	return nil, nil, false
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	var closed bool
	s.note(func() {
		if closed = s.closed; !closed {
			s.served.Add(1)
		}
	})
	if closed {
		return
	}
	defer s.served.Done()
	body, err := readBody(w, r)
	c := Call{Path: r.URL.Path, Header: r.Header, Body: body}
	d, known, found := c.route(r.Method)
	if d == nil {
		s.probe(w, c, known, found, err)
		return
	}
	var request node
	if err == nil {
		err = json.Unmarshal(body, &request.v)
	}
	if _, ok := request.v.(object); err == nil && !ok {
		err = errors.New("the body is not a JSON object")
	} else if err == nil {
		if c.API != Gemini { // Gemini has both in the path
			c.Model = request.at("model").str()
			c.Stream, _ = request.at("stream").v.(bool)
		}
		err = d.parse(&c, request)
	}
	a, record := s.decide(c, d, err)
	s.play(w, r, a, record)
}

// probe answers a request that is no model request.
func (s *Server) probe(w http.ResponseWriter, c Call, body object, found bool, err error) {
	rec := Record{API: c.API, Path: c.Path, Status: http.StatusOK, Outcome: Told}
	if err != nil {
		rec.Status, rec.Error = http.StatusBadRequest, err.Error()
	} else if !found {
		rec.Status, rec.Error = http.StatusNotFound, "no such path: "+c.Path
	}
	if rec.Error != "" {
		rec.Outcome = Failed
		body = object{"error": object{"message": rec.Error, "code": rec.Status, "status": "NOT_FOUND"}}
	}
	s.note(func() { s.probes = append(s.probes, rec) })
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(rec.Status)
	if body != nil {
		_, _ = io.WriteString(w, inJSON(body)) // a client that has gone away needs no answer
	}
}

// decide calls the script, in the order of the requests, and records the answer. broken says why the request is
// invalid; nil if it is valid.
func (s *Server) decide(c Call, d dialect, broken error) (answer, *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.N = len(s.calls) + 1
	c.Tools, c.Side = titles(c.offered), len(c.offered) == 0
	if !c.Side {
		s.turns++
	}
	c.Turn = s.turns
	a, err, status := answer{}, broken, http.StatusBadRequest
	if err == nil {
		status = http.StatusInternalServerError
		a, err = complete(c, d, s.script(c), s.meter)
	}
	r := &Record{N: c.N, API: c.API, Path: c.Path, Session: c.Session, Side: c.Side, Tools: c.Tools}
	if err != nil {
		r.Error = err.Error()
		a, _ = complete(c, d, Reply{Status: status, ErrorMessage: r.Error}, s.meter)
	}
	r.Model = a.Model
	s.calls = append(s.calls, r)
	return a, r
}

// note calls change while it holds mu.
func (s *Server) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// readBody reads and unpacks the whole body.
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
