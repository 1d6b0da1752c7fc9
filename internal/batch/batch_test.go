package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLines(t *testing.T) {
	t.Parallel()
	const most = 70 << 10 // longer than the buffer of the reader
	in := "a\r\n\n" + strings.Repeat("x", most+1) + "\n" + strings.Repeat("y", most-1) + "\nskipped\nlast"
	var out strings.Builder
	if err := Lines(strings.NewReader(in), &out, most, func(line []byte, whole bool) any {
		if string(line) == "skipped" {
			return nil
		}
		return fmt.Sprintf("%.1s %d %v <", line, len(line), whole)
	}); err != nil {
		t.Fatal(err)
	}
	want := "\"a 1 true <\"\n\" 0 true <\"\n\"x 4096 false <\"\n\"y 71679 true <\"\n\"l 4 true <\"\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	type question struct {
		ID json.RawMessage `json:"id"`
		N  int             `json:"n"`
	}
	in := "{\"id\":1,\"n\":2}\n \n{\"id\":\"b\",\"n\":\"no number\"}\nnonsense\n{\"n\":3}"
	var out strings.Builder
	if err := Objects(strings.NewReader(in), &out, func(q question) any {
		if q.N == 3 {
			return Refuse(q.ID, "three")
		}
		return q
	}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{`{"id":1,"n":2}`, `{"id":"b","error":"reading the line: json: cannot unmarshal`, `{"id":null,"error":"reading the line: invalid character`, `{"id":null,"error":"three"}`, ""} {
		if !strings.HasPrefix(lines[i], want) || want == "" && lines[i] != "" {
			t.Errorf("line %d is %s, want %s", i+1, lines[i], want)
		}
	}
}

// An answer is there before the next question, and what was answered is written out when
// reading fails.
func TestAnswersDoNotWait(t *testing.T) {
	t.Parallel()
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Lines(in, out, 10, func(line []byte, _ bool) any { return string(line) })
	}()
	for _, q := range []string{"one", "two"} {
		if _, err := io.WriteString(ask, q+"\n"); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(q)+3)
		if _, err := io.ReadFull(answers, got); err != nil || string(got) != `"`+q+"\"\n" {
			t.Fatalf("%q: %v", got, err)
		}
	}
	ask.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}

	gone := errors.New("gone")
	var b strings.Builder
	err := Lines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(gone)), &b, 10, func(line []byte, _ bool) any { return string(line) })
	if !errors.Is(err, gone) || b.String() != "\"a\"\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	in, ask = io.Pipe()
	go func() { _, _ = io.WriteString(ask, "a\n") }()
	answers, out = io.Pipe()
	answers.CloseWithError(gone)
	if err := Lines(in, out, 10, func([]byte, bool) any { return 1 }); !errors.Is(err, gone) {
		t.Error(err)
	}
}
