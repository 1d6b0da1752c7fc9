package api

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
)

// peer is the process that sends a request.
type peer struct {
	PID, UID int
	User     string
}

// SocketFile is where the daemon listens: in the private state, which agents at level L1 do not see.
func SocketFile(state string) string { return filepath.Join(state, "daemon", "sock") }

// Listen opens the socket. A socket that a dead daemon left is removed; the caller holds the daemon's lock.
func Listen(disk durable.Disk, file string) (net.Listener, error) {
	if err := disk.MkdirAll("api", filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(file); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is no socket; move it away, the daemon listens there", file)
		}
		if err := disk.Remove("api", file); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", file)
	if err != nil {
		return nil, fmt.Errorf("listening for programs: %w", err)
	}
	return l, nil
}

// mostAsked is how many requests a gateway has answered at the same time. Each tab of it takes one for as long as it is open, and one
// beyond waits without an end.
const mostAsked = 20000

// Serve answers requests of a listener of Listen or ListenTCP until ctx ends. On a socket it refuses the connections of
// other users.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	lim, said := usual, zap.NewNop()
	if g, ok := h.(*guard); ok {
		lim, said = g.limits, g.o.Log
	}
	if _, ok := l.Addr().(*net.TCPAddr); ok {
		l = &bounded{Listener: l, most: lim.connections}
	}
	// The guard lifts the read deadline when the whole request has come: a stream has none.
	s := &http.Server{Handler: h, ErrorLog: logOf(said), ReadHeaderTimeout: lim.header, ReadTimeout: lim.header + lim.body, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*boundedConn); ok {
				return context.WithValue(ctx, callerKey{}, &caller{tcp: true, local: addressOf(t.LocalAddr()), remote: addressOf(t.RemoteAddr())})
			}
			p, err := peerOfConn(c)
			if err != nil || p.UID != os.Getuid() && p.UID != 0 {
				_ = c.Close()
				return ctx
			}
			p.User = "uid " + strconv.Itoa(p.UID)
			if u, err := user.LookupId(strconv.Itoa(p.UID)); err == nil {
				p.User = u.Username
			}
			return context.WithValue(ctx, callerKey{}, &caller{peer: p})
		}}
	if g, ok := h.(*guard); ok && g.o.Trust != nil { // over one connection a gateway asks at the same time for all its clients
		var both http.Protocols
		both.SetHTTP1(true)
		both.SetUnencryptedHTTP2(true)
		s.Protocols, s.HTTP2 = &both, &http.HTTP2Config{MaxConcurrentStreams: mostAsked}
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = s.Close() // streams end with ctx; no request waits for anything else
	})
	err := s.Serve(l)
	if !stop() {
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// logOf takes what net/http says of itself, such as a panic of a route.
func logOf(to *zap.Logger) *log.Logger {
	l, _ := zap.NewStdLogAt(to.Named("http"), zap.WarnLevel) // it knows the level
	return l
}
