package classify

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/superloop/superloop/internal/batch"
	"github.com/superloop/superloop/recovery/catalog"
)

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

// Batch judges one JSON object a line, in order, and writes one a line; a line that cannot be judged gives its id and
// an error, and the batch goes on. then works out what could be done about a failure. Nothing is
// run and no probe is made. The error is that of reading or writing.
func (c *Classifier) Batch(r io.Reader, w io.Writer, then func(Failure) (options any, gate string)) error {
	return batch.Objects(r, w, func(in batchIn) any { return c.batchLine(in, then) })
}

func (c *Classifier) batchLine(in batchIn, then func(Failure) (any, string)) any {
	f, err := c.Classify(context.Background(), Input{
		Source: SourceCommand, Command: in.Command,
		Exit:   Exit{Code: in.ExitCode, Signal: signalName(in.Signal), TimedOut: in.TimedOut, OOM: in.OOM},
		Stdout: strings.NewReader(in.Stdout), Stderr: strings.NewReader(in.Stderr),
	})
	if err != nil {
		return batch.Refuse(in.ID, err.Error())
	}
	out := batchOut{
		ID: batch.ID(in.ID), Category: f.Category, Code: f.Code, Handler: f.Handler, Layer: f.Layer, Confidence: f.Confidence,
		Evidence: append([]Evidence{}, f.Evidence...), Options: []struct{}{}, Weak: f.Weak, Why: f.Why, Signature: f.Signature,
	}
	var options any
	if options, out.Gate = then(f); options != nil {
		out.Options = options
	}
	return out
}

// signalName gives a signal's full name: "KILL" and "sigkill" are SIGKILL.
func signalName(s string) string {
	s = strings.ToUpper(strings.TrimSpace(s))
	if s != "" && !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	return s
}
