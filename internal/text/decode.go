package text

import "encoding/json"

// maxReason bounds the text of an error of Decode, in characters.
const maxReason = 200

// Decode is json.Unmarshal for what somebody else can have written. The text of its error is one line of at most 200
// characters. That of json.Unmarshal repeats numbers, times and names of the input, however long they are.
func Decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return &decodeError{err}
	}
	return nil
}

// Reason returns err with a text of one line of at most 200 characters, for the errors of other decoders. It returns nil
// for nil.
func Reason(err error) error {
	if err == nil {
		return nil
	}
	return &decodeError{err}
}

type decodeError struct{ err error }

func (e *decodeError) Error() string { return Line(e.err.Error(), maxReason) }
func (e *decodeError) Unwrap() error { return e.err }
