package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/server/gateway/link"
	"github.com/superloop/superloop/server/signed"
)

// maxStrangers bounds the connections whose other end has not proved who it is.
const maxStrangers = 64

// handshakeTime bounds how long a machine may take to prove who it is.
const handshakeTime = 10 * time.Second

// Meet takes the connections of machines until ctx ends. c is a configuration of link.ForGateway.
func (g *Gateway) Meet(ctx context.Context, l net.Listener, c *tls.Config) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var met sync.WaitGroup
	defer met.Wait()
	strangers := make(chan struct{}, maxStrangers)
	for {
		strangers <- struct{}{}
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if temporary, ok := errors.AsType[net.Error](err); ok && temporary.Timeout() {
				<-strangers
				continue
			}
			return fmt.Errorf("waiting for machines: %w", err)
		}
		met.Go(func() {
			known := sync.OnceFunc(func() { <-strangers })
			defer known()
			if err := g.meet(ctx, conn, c, known); err != nil && ctx.Err() == nil {
				g.o.Log.Warn("a machine is not let in, or has gone", zap.Stringer("from", conn.RemoteAddr()), zap.Error(err))
			}
		})
	}
}

// meet speaks with one machine until it has gone.
func (g *Gateway) meet(ctx context.Context, raw net.Conn, c *tls.Config, known func()) error {
	defer func() { _ = raw.Close() }() // it may be gone already
	life, end := context.WithCancel(ctx)
	defer end()
	conn := tls.Server(raw, c)
	greet, stop := context.WithTimeout(life, handshakeTime)
	defer stop()
	if err := conn.HandshakeContext(greet); err != nil {
		return err
	}
	id, err := link.Peer(conn.ConnectionState())
	if err != nil {
		return err
	}
	known()
	var once http.Protocols
	once.SetUnencryptedHTTP2(true) // TLS is below it already
	given := &ending{Conn: conn, end: end}
	t := &http.Transport{Protocols: &once, HTTP2: &http.HTTP2Config{SendPingTimeout: link.PingAfter, PingTimeout: link.PingWait}, DisableCompression: true, MaxResponseHeaderBytes: 256 << 10,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return given, nil }}
	cc, err := t.NewClientConn(greet, "http", "machine:80")
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	l := &line{conn: cc, gone: life.Done()}
	if l.instance, err = instanceOf(greet, cc); err != nil {
		return fmt.Errorf("machine %s: %w", id, err)
	}
	m := g.machineOf(id)
	l.m = m
	var said struct {
		Machines []item `json:"machines"`
	}
	if err := l.get(greet, "/api/v1/machines", &said); err != nil {
		return fmt.Errorf("machine %s: %w", id, err)
	}
	if len(said.Machines) != 1 || said.Machines[0].text("id") != id {
		return fmt.Errorf("machine %s tells of another machine", id)
	}
	m.mu.Lock()
	m.now, m.known.Machine, m.dirty, m.known.At = l, said.Machines[0], true, time.Now().UTC()
	m.mu.Unlock()
	g.o.Log.Info("a machine is there", zap.String("machine", id), zap.Stringer("from", raw.RemoteAddr()))
	g.tell()
	m.follow(life, l)
	m.mu.Lock()
	if m.now == l { // else it has come back already
		m.now = nil
	}
	m.dirty = true
	m.mu.Unlock()
	m.keep(true)
	g.o.Log.Info("a machine is away", zap.String("machine", id))
	g.tell()
	return nil
}

// instanceOf asks which process of the machine answers.
func instanceOf(ctx context.Context, conn http.RoundTripper) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://machine/healthz", nil)
	if err != nil {
		return "", err
	}
	res, err := conn.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	id := res.Header.Get(signed.Instance)
	if res.StatusCode != http.StatusOK || id == "" {
		return "", fmt.Errorf("what answers there (%s) is no machine of a fleet", res.Status)
	}
	return id, nil
}

// machineOf returns the machine with an id, which may be new.
func (g *Gateway) machineOf(id string) *machine {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.machines[id]
	if m == nil {
		m = &machine{g: g, id: id, known: known{Rows: map[string]item{}, Questions: map[string]item{}}}
		g.machines[id] = m
	}
	return m
}

// ending calls end when the connection is over.
type ending struct {
	net.Conn
	end func()
}

func (e *ending) Close() error {
	e.end()
	return e.Conn.Close()
}
