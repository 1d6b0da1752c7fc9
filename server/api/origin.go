package api

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

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
