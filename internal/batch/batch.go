// Package batch answers questions that come one a line, as the verbs with --batch do: in order, each with a line of
// JSON. A line that is no question is answered too, and the batch goes on.
package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// head is how much of a line that is too long is kept, in bytes: its id may stand there.
const head = 4 << 10

// Refused is the answer to a line that is no question.
type Refused struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
	// Line is the line's number, from 1; 0 leaves it out.
	Line int `json:"line,omitempty"`
}

// Refuse is the refusal of a line with that id.
func Refuse(id json.RawMessage, why string) Refused { return Refused{ID: ID(id), Error: why} }

// ID is the id of a question as its answer has it: null where there is none.
func ID(id json.RawMessage) json.RawMessage {
	if len(id) == 0 {
		return json.RawMessage("null")
	}
	return id
}

// TooLong says why a line of more than most bytes is refused.
func TooLong(most int) string { return fmt.Sprintf("the line is longer than %d bytes", most) }

// Lines writes what answer says of each line of r to w; nil is left out. Of a line of more than most bytes answer gets
// the beginning, and whole is false. The answers are written out whenever no other line is there yet: whoever asks may
// wait for them. The error is that of reading or writing.
func Lines(r io.Reader, w io.Writer, most int, answer func(line []byte, whole bool) any) error {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for {
		line, whole, err := next(in, most)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if werr := out.Flush(); werr != nil {
				return fmt.Errorf("writing the batch: %w", werr)
			}
			if err != nil {
				return fmt.Errorf("reading the batch: %w", err)
			}
			return nil
		}
		if said := answer(line, whole); said != nil {
			err = enc.Encode(said)
		}
		if err == nil && in.Buffered() == 0 {
			err = out.Flush()
		}
		if err != nil {
			return fmt.Errorf("writing the batch: %w", err)
		}
	}
}

// Objects is Lines for lines of at most 64 MiB that hold an object each. Blank lines are left out, and a line that is
// no object of that form is refused.
func Objects[Question any](r io.Reader, w io.Writer, answer func(Question) any) error {
	const most = 64 << 20
	return Lines(r, w, most, func(line []byte, whole bool) any {
		var q Question
		switch {
		case !whole:
			return Refuse(nil, TooLong(most))
		case len(bytes.TrimSpace(line)) == 0:
			return nil
		}
		if err := json.Unmarshal(line, &q); err != nil {
			var of struct {
				ID json.RawMessage `json:"id"`
			}
			_ = json.Unmarshal(line, &of) // an error elsewhere leaves the id readable
			return Refuse(of.ID, fmt.Sprintf("reading the line: %v", err))
		}
		return answer(q)
	})
}

// next reads a line without its end. io.EOF: there is none.
func next(in *bufio.Reader, most int) (line []byte, whole bool, err error) {
	whole = true
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		if whole = whole && len(line) <= most; !whole {
			line = line[:min(len(line), head)]
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return bytes.TrimRight(line, "\r\n"), whole, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}
