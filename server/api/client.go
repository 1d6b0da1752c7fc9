package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"

	"github.com/superloop/superloop/internal/text"
)

// ErrNoDaemon says that nobody answers at the socket.
var ErrNoDaemon = errors.New("no daemon answers")

// maxReply bounds an answer that Call reads, in bytes.
const maxReply = 16 << 20

// Call asks the daemon of this private state over its socket, and decodes the answer into out, unless that is nil. in is the
// body, nil for none. The error is ErrNoDaemon, a *Problem of the daemon, or says what failed.
func Call(ctx context.Context, state, method, path string, in, out any) error {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", SocketFile(state))
	}}
	defer t.CloseIdleConnections()
	var send io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		send = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://superloop"+path, send)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := t.RoundTrip(req)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return ErrNoDaemon
	}
	if err != nil {
		return fmt.Errorf("asking the daemon: %w", err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return fmt.Errorf("asking the daemon: %w", err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		p := &Problem{}
		if err := text.Decode(data, p); err != nil || p.Status == 0 {
			p = problemOf(res.StatusCode, "refused", "the daemon answers "+res.Status)
		}
		return p
	}
	if out == nil {
		return nil
	}
	if err := text.Decode(data, out); err != nil {
		return fmt.Errorf("the answer of the daemon: %w", err)
	}
	return nil
}
