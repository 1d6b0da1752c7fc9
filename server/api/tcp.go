package api

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/layout"
)

// ParseAddress reads an address to listen at: PORT or localhost:PORT for both 127.0.0.1 and ::1, or an address of this
// machine that nobody else reaches, with a port. Port 0 stands for any free one. An error says why an address is refused.
func ParseAddress(s string) ([]netip.AddrPort, error) {
	host, port := "localhost", s
	if strings.Contains(s, ":") {
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil {
			return nil, fmt.Errorf("%q is no address: it is written as localhost:%d, 127.0.0.1:%d or [::1]:%d", s, layout.DaemonPort, layout.DaemonPort, layout.DaemonPort)
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q is no port", port)
	}
	if host == "localhost" {
		// Both, so that no other program can take the place of the daemon at one of the two addresses of the name.
		return []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(n)), netip.AddrPortFrom(netip.IPv6Loopback(), uint16(n))}, nil
	}
	addr, err := netip.ParseAddr(host)
	if addr = addr.Unmap(); err != nil || !addr.IsLoopback() {
		return nil, fmt.Errorf("the daemon listens at addresses of this machine only, and %q can be reached by others or is a name; everybody who reached it could try tokens, and they would cross the network in clear text", host)
	}
	return []netip.AddrPort{netip.AddrPortFrom(addr, uint16(n))}, nil
}

// ListenTCP listens at the addresses of ParseAddress. Where the system has no IPv6, the second one is left out.
func ListenTCP(ctx context.Context, at []netip.AddrPort) (all []net.Listener, err error) {
	for range 20 { // a free port of one address may be taken at the other
		if all, err = listenAll(ctx, at); err == nil || at[0].Port() != 0 {
			return all, err
		}
	}
	return nil, err
}

func listenAll(ctx context.Context, at []netip.AddrPort) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
		}
	}()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // a second path could come from an address that nobody has looked at
	port := at[0].Port()
	for i, a := range at {
		a = netip.AddrPortFrom(a.Addr(), port)
		l, err := lc.Listen(ctx, "tcp", a.String())
		if i > 0 && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)) {
			break
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			by := listener(a)
			if by == "" {
				by = "another process"
			}
			return all, fmt.Errorf("%s has the address %s already: %w", by, a, err)
		}
		if err != nil {
			return all, fmt.Errorf("listening at %s: %w", a, err)
		}
		all = append(all, l)
		port = addressOf(l.Addr()).Port()
	}
	return all, nil
}

// KeepPort writes the port of a listener into layout.DaemonPortFile: who builds a wall around agents reads it there.
func KeepPort(disk durable.Disk, state string, l net.Listener) error {
	return disk.WriteFile("port", layout.DaemonPortFile(state), []byte(strconv.Itoa(int(addressOf(l.Addr()).Port()))+"\n"), 0o600)
}

// names are the hosts by which people and programs call the daemon. A page of another name that leads here (DNS rebinding)
// sends its own.
var names = []string{"superloop.localhost", "localhost", "127.0.0.1", "[::1]"}

// checkHost refuses a request that was sent to another name than one of this machine's, or to another port.
func checkHost(host string, local netip.AddrPort) *Problem {
	at, port, ok := cutPort(strings.ToLower(host))
	own := local.Addr().String()
	if local.Addr().Is6() {
		own = "[" + own + "]"
	}
	if !ok || port != local.Port() || !slices.Contains(names, at) && at != own {
		return problemOf(http.StatusForbidden, "bad-host", "the Host of the request is not that of the daemon: http://superloop.localhost:"+strconv.Itoa(int(local.Port()))+", or localhost, 127.0.0.1 or [::1] with this port")
	}
	return nil
}

// cutPort splits HOST:PORT and keeps the brackets of an address. The port is written as a number in its only form.
func cutPort(host string) (at string, port uint16, ok bool) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(host[i+1:], 10, 16)
	return host[:i], uint16(n), err == nil && strconv.FormatUint(n, 10) == host[i+1:]
}

// checkOrigin refuses what a page of another site, or of another port of this machine, has sent. On a socket no page can
// be at work.
func checkOrigin(r *http.Request, tcp bool) *Problem {
	origin, site := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	bad := func(s string) bool { return s != "none" && (!tcp || s != "same-origin") }
	foreign := func(s string) bool { return !tcp || !strings.EqualFold(s, "http://"+r.Host) }
	if slices.ContainsFunc(origin, foreign) || slices.ContainsFunc(site, bad) {
		return problemOf(http.StatusForbidden, "cross-origin", "a web page of another origin may not ask the daemon")
	}
	return nil
}

// checkBody refuses a body that is not JSON: a form of another page can send other types without asking.
func checkBody(r *http.Request) *Problem {
	if r.ContentLength == 0 && len(r.TransferEncoding) == 0 {
		return nil
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, given := params["charset"]
	if err != nil || len(r.Header.Values("Content-Type")) != 1 || kind != "application/json" || given && !strings.EqualFold(charset, "utf-8") {
		return problemOf(http.StatusUnsupportedMediaType, "media-type", "a body is JSON: Content-Type: application/json")
	}
	return nil
}

// addressOf returns the address of one end of a connection, without the form that IPv4 has in IPv6.
func addressOf(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}
