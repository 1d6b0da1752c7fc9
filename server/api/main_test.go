package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/server/access"
	"github.com/superloop/superloop/server/registry"
)

// TestMain lets the test binary be a client of its own: it sends the request of its arguments to an address, and prints the
// status.
func TestMain(m *testing.M) {
	if len(os.Args) > 4 && os.Args[1] == "send" {
		os.Exit(send(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(m.Run())
}

func send(at, token, path string) int {
	req, err := http.NewRequest("POST", "http://"+at+path, strings.NewReader("{}"))
	if err != nil {
		return 1
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	fmt.Println(res.StatusCode, string(data))
	return 0
}

// desk is a daemon's interface without a daemon: the socket, and TCP at both addresses of localhost.
type desk struct {
	t       *testing.T
	state   string
	limits  limits
	guard   *guard
	at      []string // addresses, the one of IPv4 first
	started func(registry.Entry) error
	log     *observer.ObservedLogs // what the daemon would log
	zap     *zap.Logger
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	return newDeskOf(t, usual)
}

// newDeskOf has other limits.
func newDeskOf(t *testing.T, of limits) *desk {
	t.Helper()
	core, said := observer.New(zap.DebugLevel)
	d := &desk{t: t, state: filepath.Join(t.TempDir(), "state", "superloop"), limits: of, log: said, zap: zap.New(core), started: func(registry.Entry) error { return nil }}
	d.open()
	return d
}

// open serves until the end of the test.
func (d *desk) open() {
	d.t.Helper()
	h, err := New(Options{State: d.state, Disk: durable.OS(), Version: "test", Log: d.zap, Start: func(_ context.Context, e registry.Entry) error { return d.started(e) },
		Verb: func(context.Context, VerbCall) ([]byte, error) {
			return nil, &Refused{Exit: 1, Err: errors.New("not here")}
		}, Metrics: func(map[string]string) []byte { return nil }})
	if err != nil {
		d.t.Fatal(err)
	}
	d.guard = h.(*guard)
	d.guard.limits = d.limits
	at, err := ParseAddress("0")
	if err != nil {
		d.t.Fatal(err)
	}
	all, err := ListenTCP(d.t.Context(), at)
	if err != nil {
		d.t.Fatal(err)
	}
	d.at = nil
	for _, l := range all {
		d.at = append(d.at, l.Addr().String())
	}
	sock, err := Listen(durable.OS(), SocketFile(d.state))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, l := range append(all, sock) {
		done := make(chan error, 1)
		ctx, stop := context.WithCancel(context.Background())
		go func() { done <- Serve(ctx, l, h) }()
		d.t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				d.t.Error(err)
			}
		})
	}
}

// token makes a token.
func (d *desk) token(name string, scopes ...access.Scope) string {
	d.t.Helper()
	plain, _, err := d.guard.desk.Create(name, scopes, access.KeyLife, "ada")
	if err != nil {
		d.t.Fatal(err)
	}
	return plain
}

// session opens a session by a code.
func (d *desk) session() string {
	d.t.Helper()
	code, _, err := d.guard.desk.NewCode("ada")
	if err != nil {
		d.t.Fatal(err)
	}
	plain, _, err := d.guard.desk.Trade(code)
	if err != nil {
		d.t.Fatal(err)
	}
	return plain
}

// reply is an answer.
type reply struct {
	status int
	header http.Header
	text   string
	Problem
}

// ask sends a request to an address, or with at "" over the socket. The headers come in pairs.
func (d *desk) ask(at, method, path, body string, headers ...string) (r reply) {
	d.t.Helper()
	t := &http.Transport{DisableKeepAlives: true}
	if at == "" {
		at = "superloop"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var n net.Dialer
			return n.DialContext(ctx, "unix", SocketFile(d.state))
		}
	}
	req, err := http.NewRequest(method, "http://"+at+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	r.status, r.header, r.text = res.StatusCode, res.Header, string(data)
	if r.status >= 400 {
		if err := json.Unmarshal(data, &r.Problem); err != nil || r.Type == "" || r.ExitCode == 0 || r.Status != r.status {
			d.t.Errorf("%s %s: %d is no problem with a type and an exit code: %s", method, path, r.status, data)
		}
	}
	return r
}

// kind is the last part of the type of a problem, "" for none.
func (r reply) kind() string { return strings.TrimPrefix(r.Type, typePrefix) }

// want fails the test unless the answer has this status and kind.
func (d *desk) want(what string, r reply, status int, kind string) {
	d.t.Helper()
	if r.status != status || r.kind() != kind {
		d.t.Errorf("%s: %d %q, want %d %q\n%s", what, r.status, r.kind(), status, kind, r.text)
	}
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// lines are the record of requests, the oldest first.
func (d *desk) lines() (all []access.Line) {
	d.t.Helper()
	page, err := d.guard.log.Page(0, 10000)
	if err != nil {
		d.t.Fatal(err)
	}
	for i := len(page) - 1; i >= 0; i-- {
		all = append(all, page[i])
	}
	return all
}

// runs lets a process of its own send a request, below a shell that words begin. It returns what it printed.
func (d *desk) runs(env []string, token, path string, words ...string) string {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	argv := append(words, self, "send", d.at[0], token, path)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if _, exit := errors.AsType[*exec.ExitError](err); err != nil && !exit {
		d.t.Fatal(err)
	}
	return string(out)
}
