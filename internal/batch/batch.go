// Package batch answers questions, one per line, for the verbs with --batch. It answers in the order of the lines, each
// with one line of JSON. A line that is not a valid question gets an answer, too, and the batch goes on.
package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/superloop/superloop/internal/text"
)

// head is how many bytes are kept of a line that is too long, because they may contain its id.
const head = 4 << 10

// Refused is the answer to a line that is not a valid question.
type Refused struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
	// Line is the number of the line, from 1. 0 means that the answer does not state it.
	Line int `json:"line,omitempty"`
}

// Refuse returns the refusal of the line with that id.
func Refuse(id json.RawMessage, why string) Refused { return Refused{ID: ID(id), Error: why} }

// ID returns the id of a question in the form for the answer: null if there is none.
func ID(id json.RawMessage) json.RawMessage {
	if len(id) == 0 {
		return json.RawMessage("null")
	}
	return id
}

// TooLong returns the reason for the refusal of a line of more than most bytes.
func TooLong(most int) string { return fmt.Sprintf("the line is longer than %d bytes", most) }

// Lines calls answer for each line of r and writes the result to w, unless the result is nil. For a line of more than
// most bytes, answer gets only the beginning, and whole is false. Lines flushes the answers whenever no other line is
// buffered, because the asker may wait for them. It returns the error of reading or writing.
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

// Objects is Lines for lines of at most 64 MiB that each hold a JSON object. It skips blank lines, and refuses a line
// that is not an object of type Question.
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
		if err := text.Decode(line, &q); err != nil {
			var of struct {
				ID json.RawMessage `json:"id"`
			}
			_ = json.Unmarshal(line, &of) // despite an error elsewhere in the line, its id may be readable
			return Refuse(of.ID, fmt.Sprintf("reading the line: %v", err))
		}
		return answer(q)
	})
}

// next reads a line and returns it without its line end. It returns io.EOF if there are no more lines.
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
