package host

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzAnswers: whatever the machine's process says, every request ends, with an answer of its own form or with an error that
// can be printed.
func FuzzAnswers(f *testing.F) {
	testkit.Seed(f, []byte(`{"id":1,"turned":{"lines":[{"seq":2,"timestamp":"2026-01-02T03:04:05Z","event":"role_start","loop_id":"l","run_id":"r","iteration":1,"fields":{"role":"planner"}}],"rest":"waits","until":"2026-01-02T03:04:05Z"}}`+"\n"),
		[]byte(`{"stirred":{"repo":"/r","loop":"l"}}`+"\n"+`{"id":1,"error":{"text":"no","next":"superloop run","final":true}}`+"\n"), []byte(`{"id":7}`),
		[]byte(`{"slot":{"id":"s","place":{"repo":"/r","loop":"l"},"account":{"provider":"anthropic","account":"a"}}}`+"\n"+`{"slot":{"id":"s","left":true}}`+"\n"+`{"id":1,"slot":{},"turned":{}}`+"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, out := io.Pipe()
		stirred := 0
		c := NewClient(nopCloser{}, in, func(Place) { stirred++ }, nil)
		go func() {
			_, _ = io.Copy(out, bytes.NewReader(data))
			_ = out.Close()
		}()
		got, err := c.Turn(context.Background(), Turn{Effect: "e"})
		if err != nil {
			testkit.Message(t, err)
		}
		for _, l := range got.Lines {
			if ev := l.Event(); ev.Event != l.Line.Event {
				t.Errorf("%+v", ev)
			}
		}
		<-c.Gone()
	})
}

type nopCloser struct{}

func (nopCloser) Write(p []byte) (int, error) { return len(p), nil }
func (nopCloser) Close() error                { return nil }
