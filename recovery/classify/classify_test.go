package classify

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/superloop/superloop/internal/redact"
)

// Conforms: 000-8-reactive, 003-c2-first
func TestNoFailure(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	if _, err := c.Classify(context.Background(), Input{Command: "true"}); !errors.Is(err, ErrNoFailure) {
		t.Errorf("a success gives %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Classify(ctx, Input{Command: "x", Exit: Exit{Code: 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context gives %v", err)
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("no catalog gives no error")
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	for _, tc := range []struct {
		name     string
		exit     Exit
		stderr   string
		category string
	}{
		{"out of time", Exit{Signal: "SIGKILL", TimedOut: true}, "still running\n", "timeout"},
		{"killed for memory", Exit{Signal: "SIGKILL", OOM: true}, "collecting\n", "resources"},
		{"killed for memory beside other words", Exit{Signal: "SIGKILL", OOM: true}, "npm error code ERESOLVE\n", "resources"},
		{"nothing said", Exit{Code: 1}, "", CategoryUnknown},
	} {
		f, err := c.Classify(context.Background(), Input{Command: "npm ci", Exit: tc.exit, Stderr: strings.NewReader(tc.stderr)})
		if err != nil {
			t.Fatal(err)
		}
		if f.Category != tc.category || f.Code {
			t.Errorf("%s: %s by %s, want %s: %s", tc.name, f.Category, f.Handler, tc.category, f.Why)
		}
		if f.Category == CategoryUnknown && f.Confidence != 0 {
			t.Errorf("%s: unknown with confidence %v", tc.name, f.Confidence)
		}
	}
}

// Evidence shows the line and its place, and no secret.
func TestEvidence(t *testing.T) {
	t.Parallel()
	c, err := New(embedded(t), Options{Redact: redact.Values([]string{"hunter2hunter2"})})
	if err != nil {
		t.Fatal(err)
	}
	f := verdictOf(t, c, "npm test", 1, "", "token hunter2hunter2 https://user:pw@example.com/x?key=1 \x07\x1b[31mENOSPC: no space left on device, write 'hunter2hunter2'\x1b[0m\n")
	if f.Category != "disk_full" || len(f.Evidence) == 0 {
		t.Fatalf("%s by %s, %d lines of evidence", f.Category, f.Handler, len(f.Evidence))
	}
	for _, e := range f.Evidence {
		if strings.Contains(e.Text, "hunter2") || strings.Contains(e.Text, "pw@") || strings.ContainsAny(e.Text, "\x07\x1b") || len(e.Text) > maxEvidenceText {
			t.Errorf("evidence shows %q", e.Text)
		}
	}
	for _, m := range f.Matches {
		if strings.Contains(m.Text, "hunter2") {
			t.Errorf("a match shows %q", m.Text)
		}
	}
	f = verdictOf(t, c, "npx jest", 1, "", jestAssertion)
	if e := f.Evidence[0]; e.File != "math.test.js" || e.FileLine != 3 {
		t.Errorf("the assertion stands in %s:%d, want math.test.js:3", e.File, e.FileLine)
	}
}

// A stream that breaks off, or is read in pieces, still gives a verdict.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	text := "Error: listen EADDRINUSE: address already in use :::3000\n"
	for name, r := range map[string]io.Reader{
		"error at the end": io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("read: input/output error"))),
		"data with error":  iotest.DataErrReader(strings.NewReader(text)),
		"halves":           iotest.HalfReader(strings.NewReader(text)),
	} {
		f, err := c.Classify(context.Background(), Input{Command: "node a.js", Exit: Exit{Code: 1}, Stdout: r, Merged: true})
		if err != nil {
			t.Fatal(err)
		}
		if f.Category != "port_in_use" || f.Incomplete != (name == "error at the end") {
			t.Errorf("%s: %s by %s, incomplete %v", name, f.Category, f.Handler, f.Incomplete)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	want := verdictOf(t, c, "npx jest", 1, "", jestAssertion)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				f, err := c.Classify(context.Background(), Input{Command: "npx jest", Exit: Exit{Code: 1}, Stderr: strings.NewReader(jestAssertion)})
				if err != nil || f.Handler != want.Handler || f.Signature != want.Signature {
					t.Errorf("%v: %s, %s", err, f.Handler, f.Signature)
				}
			}
		})
	}
	wg.Wait()
}
