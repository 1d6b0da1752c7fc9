package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// message is a server-sent event.
type message struct {
	id, event string
	data      []byte
}

// maxMessage bounds a message of a machine, in bytes.
const maxMessage = 64 << 20

// messages calls f for each message of a stream, until it ends or f fails.
func messages(r io.Reader, f func(message) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMessage)
	var m message
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			m.id = value
		case "event":
			m.event = value
		case "data":
			m.data = append(m.data, value...)
		}
		if len(lines.Bytes()) > 0 {
			continue
		}
		if m.event != "" {
			if err := f(m); err != nil {
				return err
			}
		}
		m = message{}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}

// errPosition says that a machine does not know the place behind which its stream was to be continued.
var errPosition = errors.New("the machine does not know the position")

// stream reads the stream of everything of a machine, behind a position; "" begins it now, or with all at the first events.
func (l *line) stream(ctx context.Context, at string, all bool, f func(message) error) error {
	q := request{method: http.MethodGet, target: "/api/v1/stream", head: http.Header{}, user: "gateway"}
	if all {
		q.target += "?all=true"
	}
	if at != "" {
		q.head.Set("Last-Event-Id", at)
	}
	res, err := l.do(ctx, q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		return messages(res.Body, f)
	case http.StatusUnprocessableEntity:
		return errPosition
	}
	return fmt.Errorf("the machine answers %s", res.Status)
}

// positions say where a client is in the stream of each machine. As the id of a message they are MACHINE:ID,MACHINE:ID.
type positions map[string]string

func (p positions) String() string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(p)) {
		out = append(out, id+":"+p[id])
	}
	return strings.Join(out, ",")
}

// maxPositions bounds the id of a message that a client sends, in bytes.
const maxPositions = 60000

var errLong = errors.New("it is too long")

// parsePositions reads the id of a message; "" is nowhere.
func parsePositions(s string) (positions, error) {
	p := positions{}
	if len(s) > maxPositions {
		return nil, errLong
	}
	for part := range strings.SplitSeq(s, ",") {
		id, at, ok := strings.Cut(part, ":")
		if s == "" {
			break
		}
		if !ok || id == "" || at == "" || strings.ContainsAny(part, " \r\n") {
			return nil, errors.New("it is not the id of a message of this stream")
		}
		p[id] = at
	}
	return p, nil
}
