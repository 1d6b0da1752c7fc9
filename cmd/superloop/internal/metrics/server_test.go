package metrics

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Conforms: 001-sec-telemetry
func TestAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:9090": "127.0.0.1:9090", ":0": "127.0.0.1:0", "localhost:80": "127.0.0.1:80", "[::1]:0": "[::1]:0", "127.9.9.9:1": "127.9.9.9:1",
		"[::ffff:127.0.0.1]:7": "[::ffff:127.0.0.1]:7",
		"0.0.0.0:9090":         "", "[::]:9090": "", "192.168.1.2:80": "", "example.com:80": "", "9090": "", "127.0.0.1": "", "127.0.0.1:70000": "",
		"127.0.0.1:http": "", "127.0.0.1:": "", "127.0.0.1:-1": "", "": "", "0:1": "",
	} {
		got, err := Address(addr)
		var wrong *AddressError
		if got != want || (want == "") != errors.As(err, &wrong) {
			t.Errorf("%q is %q, %v; want %q", addr, got, err, want)
		}
	}
}

// TestServer: the text is what Prometheus parses and its linter accepts; only GET of
// /metrics at an address of this machine is answered; a port in use is an error.
func TestServer(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.write(t, testEnv()...)
	s, err := Serve("127.0.0.1:0", NewCollector([]Source{{"one", b.path}}))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, url, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	code, text := ask("GET", s.URL, "")
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil || len(parsed) != len(metrics()) {
		t.Errorf("%d families were parsed: %v", len(parsed), err)
	}
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("the linter says %v, %v", problems, err)
	}
	for _, c := range []struct {
		method, url, host string
		want              int
	}{{"POST", s.URL, "", 405}, {"GET", strings.TrimSuffix(s.URL, "metrics"), "", 404}, {"GET", s.URL, "evil.example:80", 403},
		{"GET", s.URL, "localhost", 200}, {"GET", s.URL, "[::1]:9", 200}, {"HEAD", s.URL, "127.0.0.1", 200}} {
		if code, _ := ask(c.method, c.url, c.host); code != c.want {
			t.Errorf("%s %s of host %q gives %d, want %d", c.method, c.url, c.host, code, c.want)
		}
	}
	addr := strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), "/metrics")
	if other, err := Serve(addr, NewCollector(nil)); err == nil {
		_ = other.Close()
		t.Error("two servers have one port")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
}
