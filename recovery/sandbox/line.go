package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// line is the two pipes between Run and the shim.
type line struct {
	theirs []*os.File // the shim's ends: order, report
	order  *os.File
	back   *os.File
	sent   chan struct{} // nil: no order was sent
}

// openLine makes the pipes.
func openLine() (*line, error) {
	in, send, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("writing the shim's order: %w", err)
	}
	back, out, err := os.Pipe()
	if err != nil {
		in.Close()
		send.Close()
		return nil, fmt.Errorf("writing the shim's order: %w", err)
	}
	return &line{theirs: []*os.File{in, out}, order: send, back: back}, nil
}

// send begins to send the order.
func (l *line) send(o *order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("writing the shim's order: %w", err)
	}
	l.sent = make(chan struct{})
	go func() {
		defer close(l.sent)
		// A write fails only if the shim died, which is found out elsewhere.
		_, _ = l.order.Write(append(text, '\n'))
		l.order.Close()
	}()
	return nil
}

// report is what the shim said.
func (l *line) report() (report, error) {
	l.theirs[1].Close() // else it would not end
	return readReport(l.back)
}

// close returns when nothing is sent any more.
func (l *line) close() {
	for _, f := range append(l.theirs, l.back) {
		f.Close()
	}
	if l.sent == nil {
		l.order.Close()
		return
	}
	<-l.sent
}

// readReport reads what the shim said, when it has ended. No report means that it died.
func readReport(r *os.File) (report, error) {
	var rep report
	if err := r.SetReadDeadline(time.Now().Add(reportWait)); err != nil {
		return rep, fmt.Errorf("reading the shim's report: %w", err)
	}
	d := json.NewDecoder(io.LimitReader(r, 2*maxReport))
	said := false
	for {
		var next report
		err := d.Decode(&next)
		switch {
		case errors.Is(err, io.EOF) && said:
			return rep, nil
		case errors.Is(err, io.EOF):
			return rep, errors.New("the shim said nothing")
		case err != nil:
			return rep, fmt.Errorf("reading the shim's report: %w", err)
		}
		rep, said = next, true
	}
}
