// Package mockapi is a loopback server that plays the model APIs which agent CLIs talk to, faithfully enough that the
// real CLIs run against it: Anthropic Messages, OpenAI Responses and Google Gemini, all on one port of 127.0.0.1.
//
//	POST /v1/messages                                   Anthropic, streaming or not
//	POST /v1/messages/count_tokens
//	POST /v1/responses                                  OpenAI, streaming or not
//	POST /v1beta/models/MODEL:generateContent           Gemini
//	POST /v1beta/models/MODEL:streamGenerateContent     server-sent events
//	POST /v1beta/models/MODEL:countTokens
//	GET  /v1/models, GET or HEAD of /                   what CLIs ask before they begin
//
// Gemini answers under /v1 and /v1alpha too. Everything else is 404. A key is never looked at.
//
// A Script says what the model does: it sees a Call and gives a Reply in words that all APIs share. A Tool that writes
// a file or runs a command becomes a call of a tool that this very request offers, under the names and in the form that
// the CLI offers it; if none fits, the reply is an error 500, and the Record says why. Calls is the environment truth:
// every model request that was answered, with exactly the usage that the CLI was told.
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

// maxBody bounds a request's body in bytes, as it is sent and as it is unpacked.
const maxBody = 64 << 20

// Server answers model requests on some port of 127.0.0.1. Its methods may be called from any goroutine.
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
	s.served.Go(func() { _ = s.http.Serve(l) }) // ends with the listener
	return s, nil
}

// URL is where the server is, without a slash at the end.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Close ends the server and all answers under way, those that hang too. It returns when nothing of it runs any more.
// Calling it again does nothing.
func (s *Server) Close() (err error) {
	var again bool
	if s.note(func() { again, s.closed = s.closed, true }); !again {
		close(s.closing)
		err = s.http.Close()
	}
	s.served.Wait()
	return err
}

// Calls are the model requests that were answered, in the order of their arrival. One that is still being answered is
// listed as it is planned, without an Outcome as long as its Delay lasts.
func (s *Server) Calls() (list []Record) {
	s.note(func() {
		for _, r := range s.calls {
			list = append(list, *r)
		}
	})
	return list
}

// Probes are all other requests: for counts of tokens, lists of models, a sign of life, and what was not found.
func (s *Server) Probes() (list []Record) {
	s.note(func() { list = slices.Clone(s.probes) })
	return list
}

// route reads the path, which has the model and the form of Gemini's answer in it. A model request has a dialect, all
// else that is found a body, which may be none. Repeated slashes do not matter: base URLs may end with one.
func (c *Call) route(method string) (d dialect, body object, found bool) {
	parts := strings.FieldsFunc(c.Path, func(r rune) bool { return r == '/' })
	clean, get, n := strings.Join(parts, "/"), method == http.MethodGet || method == http.MethodHead, tokens(len(c.Body))
	// Each API has its own word for the list and for the count, and none minds the others'.
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
		if c.API != Gemini { // which has both in the path
			c.Model = request.at("model").str()
			c.Stream, _ = request.at("stream").v.(bool)
		}
		err = d.parse(&c, request)
	}
	a, record := s.decide(c, d, err)
	s.play(w, r, a, record)
}

// probe answers what is no model request.
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
		_, _ = io.WriteString(w, inJSON(body)) // a client that has gone does not want it
	}
}

// decide asks the script, in order, and puts the answer on record. broken is why the request was not understood.
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

// note reads or changes what mu guards.
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
