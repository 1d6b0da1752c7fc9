package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// limits bound what slow clients cost.
type limits struct {
	header      time.Duration // for the header of a request to come
	body        time.Duration // and for its body, behind that
	take        time.Duration // for a client to take a piece of an answer
	connections int           // at once at one address of TCP
}

// usual are the limits of a daemon. A client has to take some 2 KiB a second of what the system does not keep for it.
var usual = limits{header: 10 * time.Second, body: 10 * time.Second, take: 30 * time.Second, connections: 256}

// piece is the length in bytes of the part of an answer that limits.take is for.
const piece = 64 << 10

// kept is what the system keeps of an answer for a client of TCP, in bytes.
const kept = 256 << 10

// paced writes an answer piece by piece, and gives the client limits.take for each. Without it a client that takes
// nothing would keep its answer in memory for ever.
type paced struct {
	http.ResponseWriter
	take time.Duration
	gone bool // the client has not taken a piece
}

func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// SetReadDeadline does nothing: the guard has read the body, under limits.body. The library would give each body five seconds,
// and net/http ends a request when such a time is over, also while its route works.
func (p *paced) SetReadDeadline(time.Time) error { return nil }

// WriteHeader does nothing when the client has gone: a route that tries to say so has answered already.
func (p *paced) WriteHeader(status int) {
	if !p.gone {
		p.ResponseWriter.WriteHeader(status)
	}
}

func (p *paced) Write(data []byte) (n int, err error) {
	control := http.NewResponseController(p.ResponseWriter)
	for {
		_ = control.SetWriteDeadline(time.Now().Add(p.take)) // a test has no connection
		some, err := p.ResponseWriter.Write(data[n:min(len(data), n+piece)])
		if n += some; err != nil || n >= len(data) {
			p.gone = err != nil
			return n, err
		}
	}
}

// bounded is a listener of TCP with at most so many connections at once. Who comes beyond that is told so: a queue would
// look like a daemon that hangs. The socket of the user has no bound, so that the verbs of operators work.
type bounded struct {
	net.Listener
	most int

	mu       sync.Mutex
	open     int
	refusing int // connections that are being told so
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		full := b.open >= b.most
		if !full {
			b.open++
		}
		b.mu.Unlock()
		if !full {
			t := c.(*net.TCPConn)
			_ = t.SetWriteBuffer(kept) // else the system keeps megabytes for each slow client
			return &boundedConn{TCPConn: t, over: sync.OnceFunc(func() {
				b.mu.Lock()
				b.open--
				b.mu.Unlock()
			})}, nil
		}
		b.refuse(c)
	}
}

// refuse tells a connection that it is one too many. Those that come while as many are being told are closed at once.
func (b *bounded) refuse(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusing >= b.most {
		_ = c.Close()
		return
	}
	b.refusing++
	go func() {
		busy(c, b.most)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.refusing--
	}()
}

// busy refuses a connection. It reads what the client asks before, for a second at most: clients take no answer to what they
// have not asked yet, and the system throws an answer away if something that was sent is not read.
func busy(c net.Conn, most int) {
	defer func() { _ = c.Close() }() // it is refused
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
	if r, err := http.ReadRequest(bufio.NewReader(io.LimitReader(c, 64<<10))); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	p := problemOf(http.StatusServiceUnavailable, "busy", fmt.Sprintf("%d connections are open at this address; the socket of the daemon answers all the same", most))
	body, _ := json.Marshal(p) // it has no values that cannot be written
	_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 10\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

type boundedConn struct {
	*net.TCPConn
	over func()
}

func (c *boundedConn) Close() error {
	c.over()
	return c.TCPConn.Close()
}
