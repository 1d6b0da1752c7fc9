package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/server/access"
)

// A process below an agent changes nothing over TCP, whatever token it has: by its own mark, by that of a process above, as
// an orphan. It may look. Each try is written down.
func TestAgentsOverTCP(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	token := d.token("all", access.Read, access.Control, access.Approve)
	mark := []string{escalation.MarkVariable + "=r1"}
	const path = "/api/v1/loops/x/start"
	if out := d.runs(nil, token, path); !strings.HasPrefix(out, "404 ") {
		t.Errorf("a person: %s", out)
	}
	for name, out := range map[string]string{
		"an agent":             d.runs(mark, token, path),
		"without the variable": d.runs(mark, token, path, "sh", "-c", `env -u `+escalation.MarkVariable+` "$@"; true`, "sh"),
		"an orphan":            d.runs(mark, token, path, "sh", "-c", `(until [ "$(cut -d" " -f4 < /proc/self/stat)" != "$0" ]; do :; done; "$@") & exec 3< /dev/null`, "sh"),
		"a session":            d.runs(mark, d.session(), path),
	} {
		if !strings.HasPrefix(out, "403 ") || !strings.Contains(out, "urn:superloop:forbidden-agent") {
			t.Errorf("%s: %s", name, out)
		}
	}
	refused := 0
	for _, l := range d.lines() {
		if l.Reason == "forbidden-agent" && l.Verdict == access.Refused && l.Channel == "tcp" && len(l.PIDs) > 0 && l.PIDs[0] != os.Getpid() && l.Exe != "" && l.Token != "" && l.Path == path {
			refused++
		}
	}
	if refused != 4 {
		t.Errorf("%d tries are written down: %+v", refused, d.lines())
	}
	code, _, err := d.guard.desk.NewCode("ada")
	if err != nil {
		t.Fatal(err)
	}
	if out := d.runs(mark, token, "/api/v1/sessions?code="+code); !strings.Contains(out, "forbidden-agent") {
		t.Error("an agent trades a code:", out)
	}
}

// A person's process that starts agents, or programs that end at once, is a person's: the child that holds the connection until
// its program begins does not send the request. Not parallel: those children hold the connections of other tests, too.
func TestChildrenOfAPerson(t *testing.T) {
	d := newDesk(t)
	token := bearer(d.token("all", access.Read, access.Control))
	done, starting := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				cmd := exec.Command("/bin/sh", "-c", "exec sleep 0.01")
				cmd.Env = []string{escalation.MarkVariable + "=r1"}
				if err := cmd.Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 400 {
		if r := d.ask(d.at[0], "POST", "/api/v1/loops/x/start", "{}", token...); r.status != http.StatusNotFound {
			t.Errorf("it is refused: %d %s", r.status, r.text)
			break
		}
	}
	close(done)
	starting.Wait()
}

// connected returns both ends of a connection to a listener of this process, by the socket of dial.
func connected(t *testing.T, at string, dial func(port int) int) (local, remote netip.AddrPort) {
	t.Helper()
	all, err := ListenTCP(t.Context(), []netip.AddrPort{netip.MustParseAddrPort(at)})
	if err != nil {
		t.Skip("no such address here: ", err)
	}
	t.Cleanup(func() { _ = all[0].Close() })
	fd := dial(int(addressOf(all[0].Addr()).Port()))
	c, err := all[0].Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = unix.Close(fd) })
	return addressOf(c.LocalAddr()), addressOf(c.RemoteAddr())
}

// The process at the other end is found whatever kind of socket it has.
func TestClientIsFound(t *testing.T) {
	t.Parallel()
	dial := func(family, protocol int, to unix.Sockaddr) func(int) int {
		return func(port int) int {
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protocol)
			if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ENOPROTOOPT) {
				t.Skip("the kernel has no such sockets")
			}
			if err != nil {
				t.Fatal(err)
			}
			switch a := to.(type) {
			case *unix.SockaddrInet4:
				a.Port = port
			case *unix.SockaddrInet6:
				a.Port = port
			}
			if err := unix.Connect(fd, to); err != nil {
				t.Fatal(err)
			}
			return fd
		}
	}
	one := [4]byte{127, 0, 0, 1}
	mapped := netip.MustParseAddr("::ffff:127.0.0.1").As16()
	for name, c := range map[string]struct {
		at   string
		dial func(int) int
	}{
		"IPv4":         {"127.0.0.1:0", dial(unix.AF_INET, 0, &unix.SockaddrInet4{Addr: one})},
		"IPv6":         {"[::1]:0", dial(unix.AF_INET6, 0, &unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()})},
		"IPv4 in IPv6": {"127.0.0.1:0", dial(unix.AF_INET6, 0, &unix.SockaddrInet6{Addr: mapped})},
		"MPTCP":        {"127.0.0.1:0", dial(unix.AF_INET, unix.IPPROTO_MPTCP, &unix.SockaddrInet4{Addr: one})},
	} {
		t.Run(name, func(t *testing.T) {
			local, remote := connected(t, c.at, c.dial)
			pids, uid, err := client("/proc", local, remote)
			for tries := 0; tries < 1000 && len(pids) > 1; tries++ { // a child of another test has the socket, too, until its program begins
				pids, uid, err = client("/proc", local, remote)
			}
			if err != nil || !slices.Equal(pids, []int{os.Getpid()}) || uid != os.Getuid() {
				t.Errorf("%v to %v belongs to %v, uid %d: %v", remote, local, pids, uid, err)
			}
			// The other end has the same addresses, in the other order: it is not taken for the client.
			if pids, _, err := client("/proc", remote, netip.AddrPortFrom(remote.Addr(), 1)); !errors.Is(err, errNoOwner) {
				t.Errorf("nobody's connection belongs to %v: %v", pids, err)
			}
		})
	}
}

// A process that has sent its request and has ended is unknown: a change needs a person's confirmation, and a code opens no
// session.
func TestClientThatHasGone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	token := d.session()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sh, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	cmd := exec.Command(sh, "-c", `exec 3<> /dev/tcp/127.0.0.1/"$1"`, "sh", l.Addr().String()[len("127.0.0.1:"):])
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	gone := caller{tcp: true, local: addressOf(c.LocalAddr()), remote: addressOf(c.RemoteAddr())}
	send := func(path, body string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://"+gone.local.String()+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		d.guard.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, &gone)))
		return w
	}
	w := send("/api/v1/loops/x/start", "{}")
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "step-up-required") {
		t.Fatal(w.Code, w.Body)
	}
	all := d.guard.confirms.Pending()
	if len(all) != 1 || !strings.Contains(all[0].By, "unknown process") || !strings.Contains(all[0].Shown, "POST /api/v1/loops/x/start {}") {
		t.Fatalf("%+v", all)
	}
	code, _, err := d.guard.confirms.Allow(all[0].ID, access.OnTerminal)
	if err != nil {
		t.Fatal(err)
	}
	if w := send("/api/v1/loops/x/start", "{}", "Superloop-Confirm", code); w.Code != http.StatusNotFound {
		t.Error("confirmed:", w.Code, w.Body)
	}
	// A route that asks more exactly than the guard is asked for by a second code. Who then sends the wish again from its beginning is
	// asked what the route has asked, and nothing else.
	const wish = `{"name": "ci", "scopes": ["read"], "expires_in": 60}`
	send("/api/v1/tokens", wish)
	if code, _, err = d.guard.confirms.Allow(d.guard.confirms.Pending()[0].ID, access.OnTerminal); err != nil {
		t.Fatal(err)
	}
	send("/api/v1/tokens", wish, "Superloop-Confirm", code)
	send("/api/v1/tokens", wish)
	if all = d.guard.confirms.Pending(); len(all) != 1 || !strings.Contains(all[0].What, "make a token named ci") {
		t.Fatalf("%+v", all)
	}
	if code, _, err = d.guard.confirms.Allow(all[0].ID, access.OnTerminal); err != nil {
		t.Fatal(err)
	}
	if w := send("/api/v1/tokens", wish, "Superloop-Confirm", code); w.Code != http.StatusCreated {
		t.Error("confirmed once more:", w.Code, w.Body)
	}
	// What a passkey signs is a confirmation: none is asked for in front of it, or there would be no end.
	token = d.session()
	for _, path := range []string{"/api/v1/passkeys/options", "/api/v1/confirmations/x/passkey"} {
		if w := send(path, `{"answer": {}}`); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "no-passkey-here") {
			t.Error(path, w.Code, w.Body)
		}
	}
	one, _, err := d.guard.desk.NewCode("ada")
	if err != nil {
		t.Fatal(err)
	}
	if w := send("/api/v1/sessions", `{"code": "`+one+`"}`); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "unknown-process") {
		t.Error("a code by nobody:", w.Code, w.Body)
	}
}

// A stream ends when its credential is revoked.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	token := d.token("ci", access.Approve) // an unknown route needs it
	ended := make(chan struct{})
	d.guard.mux.HandleFunc("GET /test/stream", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	})
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+d.at[0]+"/test/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if r := d.ask("", "DELETE", "/api/v1/tokens/ci", ""); r.status != http.StatusNoContent {
		t.Error(r.text)
	}
	<-ended
	_, _ = io.Copy(io.Discard, res.Body)
}

// FuzzRow: a line of the kernel's table is read, or is none.
func FuzzRow(f *testing.F) {
	f.Add([]byte("   0: 0100007F:1E25 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0000000000000000 100 0 0 10 0"))
	f.Add([]byte("   1: 00000000000000000000000001000000:1E25 0000000000000000FFFF00000100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 7 1"))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, ok := parseRow(line)
		if ok && (!r.local.Addr().IsValid() || r.local.Addr().Is4In6() || r.remote.Addr().Is4In6() || r.state < 0) {
			t.Errorf("%+v", r)
		}
	})
}
