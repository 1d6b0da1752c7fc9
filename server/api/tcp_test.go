package api

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestCheckHost(t *testing.T) {
	t.Parallel()
	for _, local := range []string{"127.0.0.1:7717", "[::1]:7717"} {
		at := netip.MustParseAddrPort(local)
		for _, host := range []string{"superloop.localhost:7717", "localhost:7717", "127.0.0.1:7717", "[::1]:7717", "LOCALHOST:7717"} {
			if p := checkHost(host, at); p != nil {
				t.Errorf("%s at %s: %v", host, local, p)
			}
		}
		for _, host := range []string{"", "localhost", "localhost:7718", "localhost:07717", "localhost:+7717", "localhost:", "evil.example:7717", "rebind.localhost:7717", "localhost.:7717", "localhost.evil.example:7717",
			"127.0.0.1.nip.io:7717", "127.0.0.2:7717", "0.0.0.0:7717", "[::]:7717", "::1:7717", "[::ffff:127.0.0.1]:7717", "127.1:7717", "2130706433:7717", "superloop.localhost:7717:7717", " localhost:7717", "user@localhost:7717"} {
			if p := checkHost(host, at); p == nil {
				t.Errorf("%q is taken at %s", host, local)
			}
		}
	}
	if p := checkHost("127.0.0.2:9", netip.MustParseAddrPort("127.0.0.2:9")); p != nil {
		t.Error("the address itself:", p)
	}
}

func TestCheckOrigin(t *testing.T) {
	t.Parallel()
	const own = "http://localhost:7717"
	for _, c := range []struct {
		tcp          bool
		origin, site string
		want         bool
	}{
		{true, "", "", true}, {true, own, "same-origin", true}, {true, "", "none", true}, {true, own, "", true}, {true, "HTTP://LOCALHOST:7717", "", true},
		{true, "null", "", false}, {true, "http://localhost:3000", "same-site", false}, {true, "http://superloop.localhost:7717", "", false}, {true, "https://localhost:7717", "", false},
		{true, "http://evil.example", "cross-site", false}, {true, "", "cross-site", false}, {true, "", "same-site", false}, {true, own, "cross-site", false}, {true, own + "/", "", false},
		{false, "", "", true}, {false, own, "", false}, {false, "null", "", false}, {false, "", "same-origin", false}, {false, "", "none", true},
	} {
		r := httptest.NewRequest("GET", own+"/", nil)
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if p := checkOrigin(r, c.tcp); (p == nil) != c.want {
			t.Errorf("%+v: %v", c, p)
		}
	}
	r := httptest.NewRequest("GET", own+"/", nil)
	r.Header["Origin"] = []string{own, "http://evil.example"}
	if checkOrigin(r, true) == nil {
		t.Error("a second Origin is not looked at")
	}
}

func TestCheckBody(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"application/json": true, "application/json; charset=utf-8": true, "Application/JSON": true,
		"": false, "text/plain": false, "application/x-www-form-urlencoded": false, "multipart/form-data; boundary=x": false, "application/json-seq": false,
		"text/plain; x=application/json": false, "application/json, text/plain": false, "application/json; charset=utf-7": false, "application/cbor": false} {
		r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		if p := checkBody(r); (p == nil) != want {
			t.Errorf("%q: %v", kind, p)
		}
	}
	if p := checkBody(httptest.NewRequest("POST", "/", nil)); p != nil {
		t.Error("no body:", p)
	}
}
