package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// AddressError says that superloop does not serve metrics at an address, because it is invalid or is not a loopback
// address.
type AddressError struct{ Addr, Why string }

func (e *AddressError) Error() string {
	return fmt.Sprintf("metrics are not served at %q: %s", e.Addr, e.Why)
}

// Address returns HOST:PORT with a numeric host and port. HOST is a loopback address, localhost or empty. PORT 0 stands
// for any free port.
func Address(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", &AddressError{addr, "it is not HOST:PORT"}
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil || port == "" || strings.TrimLeft(port, "0123456789") != "" {
		return "", &AddressError{addr, fmt.Sprintf("the port is a number from 0 to 65535, not %q", port)}
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return "", &AddressError{addr, fmt.Sprintf("%q is no address of this machine's loopback, such as 127.0.0.1", host)}
	case !ip.Unmap().IsLoopback():
		return "", &AddressError{addr, "others could read there what the loops cost and do, without a password; only loopback addresses are taken, such as 127.0.0.1"}
	}
	return net.JoinHostPort(host, fmt.Sprint(n)), nil
}

// Server serves the metrics until it is closed.
type Server struct {
	URL     string // the address of the metrics
	http    *http.Server
	serving sync.WaitGroup
}

// Serve starts a server at an address that Address has returned. It fails when the port is in use.
func Serve(addr string, c *Collector) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serving metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrapes(c))
	s := &Server{URL: "http://" + ln.Addr().String() + "/metrics",
		// WriteTimeout is long because the first scrape reads the journals from their start.
		http: &http.Server{Handler: loopback(mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute,
			IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}}
	s.serving.Go(func() { _ = s.http.Serve(ln) }) // an error of the server does not affect the loops
	return s, nil
}

// scrapes returns the handler of the metrics. It serves four scrapes at a time and refuses further ones with status
// 503.
func scrapes(c *Collector) http.Handler {
	free := make(chan struct{}, 4)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		default:
			http.Error(w, "too many scrapes are under way; ask again later", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(c.Text()) // a client that has gone away needs no answer
	})
}

// Close ends the server. A scrape that is under way gets one second to finish.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.serving.Wait()
	return err
}

// loopback refuses requests whose Host is neither localhost nor a loopback address. Otherwise a web page could point a
// DNS name at this machine and read the metrics through the operator's browser.
func loopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
			http.Error(w, "ask for 127.0.0.1 or localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
