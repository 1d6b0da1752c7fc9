package classify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/superloop/superloop/recovery/catalog"
)

// maxBatchLine bounds one line of a batch, 64 MiB.
const maxBatchLine = 64 << 20

// batchIn is one line in. Unknown keys are ignored: they may be the caller's.
type batchIn struct {
	ID       json.RawMessage `json:"id"`
	Command  string          `json:"command"`
	ExitCode int             `json:"exit_code"`
	Signal   string          `json:"signal"`
	TimedOut bool            `json:"timed_out"`
	OOM      bool            `json:"oom"`
	Stdout   string          `json:"stdout"`
	Stderr   string          `json:"stderr"`
}

// batchOut is one line out.
type batchOut struct {
	ID         json.RawMessage `json:"id"`
	Category   string          `json:"category"`
	Code       bool            `json:"code"`
	Handler    string          `json:"handler"`
	Layer      catalog.Layer   `json:"layer"`
	Confidence float64         `json:"confidence"`
	Evidence   []Evidence      `json:"evidence"`
	Options    any             `json:"options"`
	Gate       string          `json:"gate"`
	Weak       bool            `json:"weak"`
	Why        string          `json:"why"`
	Signature  string          `json:"signature"`
}

type batchError struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

// Batch judges one JSON object a line, in order, and writes one a line; a line
// that cannot be judged gives its id and an error, and the batch goes on. then
// works out what could be done about a failure; nil leaves that out. Nothing is
// run and no probe is made. The error is that of reading or writing.
func (c *Classifier) Batch(r io.Reader, w io.Writer, then func(Failure) (options any, gate string)) error {
	br := bufio.NewReaderSize(r, 64<<10)
	bw := bufio.NewWriter(w)
	enc := json.NewEncoder(bw)
	enc.SetEscapeHTML(false)
	for {
		line, rerr := readLine(br)
		if len(bytes.TrimSpace(line)) > 0 || errors.Is(rerr, errLongLine) {
			if err := enc.Encode(c.batchLine(line, rerr, then)); err != nil {
				return fmt.Errorf("writing a line of the batch: %w", err)
			}
		}
		if br.Buffered() == 0 || rerr != nil {
			if err := bw.Flush(); err != nil {
				return fmt.Errorf("writing the batch: %w", err)
			}
		}
		switch {
		case rerr == nil, errors.Is(rerr, errLongLine):
		case errors.Is(rerr, io.EOF):
			return nil
		default:
			return fmt.Errorf("reading the batch: %w", rerr)
		}
	}
}

func (c *Classifier) batchLine(line []byte, rerr error, then func(Failure) (any, string)) any {
	if errors.Is(rerr, errLongLine) {
		return batchError{ID: json.RawMessage("null"), Error: fmt.Sprintf("the line is longer than %d bytes", maxBatchLine)}
	}
	var in batchIn
	if err := json.Unmarshal(line, &in); err != nil {
		var id struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.Unmarshal(line, &id) // a type error elsewhere leaves the id readable
		return batchError{ID: orNull(id.ID), Error: fmt.Sprintf("reading the line: %v", err)}
	}
	f, err := c.Classify(context.Background(), Input{
		Source: SourceCommand, Command: in.Command,
		Exit:   Exit{Code: in.ExitCode, Signal: signalName(in.Signal), TimedOut: in.TimedOut, OOM: in.OOM},
		Stdout: strings.NewReader(in.Stdout), Stderr: strings.NewReader(in.Stderr),
	})
	if err != nil {
		return batchError{ID: orNull(in.ID), Error: err.Error()}
	}
	out := batchOut{
		ID: orNull(in.ID), Category: f.Category, Code: f.Code, Handler: f.Handler, Layer: f.Layer, Confidence: f.Confidence,
		Evidence: f.Evidence, Options: []struct{}{}, Weak: f.Weak, Why: f.Why, Signature: f.Signature,
	}
	if out.Evidence == nil {
		out.Evidence = []Evidence{}
	}
	if f.Code {
		out.Gate = "none"
	}
	if then != nil {
		options, gate := then(f)
		if options != nil {
			out.Options = options
		}
		out.Gate = gate
	}
	return out
}

func orNull(id json.RawMessage) json.RawMessage {
	if len(id) == 0 {
		return json.RawMessage("null")
	}
	return id
}

// signalName gives a signal's full name: "KILL" and "sigkill" are SIGKILL.
func signalName(s string) string {
	s = strings.ToUpper(strings.TrimSpace(s))
	if s != "" && !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	return s
}

var errLongLine = errors.New("line too long")

// readLine reads one line of any length up to the bound, and skips the rest of
// a longer one.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		if len(line)+len(part) > maxBatchLine {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = br.ReadSlice('\n')
			}
			if err != nil {
				return nil, err
			}
			return nil, errLongLine
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
