package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

// The pauses between two attempts to reach the gateway. A connection that has lasted for settled begins with the first again.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
	settled    = 10 * time.Second
)

// Join holds a connection with the gateway at an address until ctx ends. open connects with what answers the requests of the
// gateway on this machine. Where one of the two cannot be reached, or ends, Join tries again.
func (m Member) Join(ctx context.Context, at string, open func(context.Context) (net.Conn, error), log *zap.Logger) error {
	to, err := m.forMachine()
	if err != nil {
		return err
	}
	d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: to}
	pause, said := firstPause, ""
	for ctx.Err() == nil {
		began := time.Now()
		err := once(ctx, d, at, open, func() {
			said = ""
			log.Info("the gateway is reached", zap.String("at", at))
		})
		if time.Since(began) > settled {
			pause = firstPause
		}
		if ctx.Err() != nil {
			break
		}
		if why := fmt.Sprint(err); why != said { // the same reason is told once
			said = why
			log.Warn("the gateway is not reached; loops go on, and it is tried again", zap.String("at", at), zap.Error(err))
		}
		wait := time.NewTimer(pause/2 + rand.N(pause)) // machines do not all come back in the same moment
		select {
		case <-ctx.Done():
			wait.Stop()
		case <-wait.C:
		}
		pause = min(2*pause, lastPause)
	}
	return nil
}

// once holds one connection, until an end of it is gone. It always returns why.
func once(ctx context.Context, d *tls.Dialer, at string, open func(context.Context) (net.Conn, error), reached func()) error {
	in, err := open(ctx)
	if err != nil {
		return fmt.Errorf("what answers on this machine: %w", err)
	}
	defer func() { _ = in.Close() }() // whatever came over it is handed on
	out, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = out.Close(), in.Close() })()
	far := &living{Conn: out, first: sync.OnceFunc(reached)}
	ends := make(chan error, 2)
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{far, in}, {in, far}} {
		both.Go(func() {
			_, err := io.Copy(pair[0], pair[1])
			if err == nil {
				err = errors.New("the connection was closed")
			}
			ends <- err
		})
	}
	err = <-ends
	_, _ = out.Close(), in.Close()
	both.Wait()
	return err
}

// living is a connection that ends when nothing has come over it, or nothing can be sent, for silence.
type living struct {
	net.Conn
	first func() // called when something has come: the other end has let this machine in
}

func (c *living) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.first()
	}
	return n, err
}

func (c *living) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
