// Package redact keeps secrets out of what is printed, logged and written.
//
// There are three cases, and one tool for each. A secret that the program holds is a Secret, which prints as Mark however
// it is printed. A URL may be one without anybody having said so (a webhook's path is its password): URL and Text leave
// only the scheme and the host. And output of other programs may repeat a secret that is known: a Replacer takes it out
// of the stream.
package redact

import (
	"fmt"
	"io"
)

// Mark is what stands in the place of a secret.
const Mark = "<secret>"

// Secret is a string that is not printed: fmt in every verb, JSON, text and log encoders all get Mark, or nothing when it
// is empty. It can be read from JSON like a string. Only Reveal gives its value.
//
// Two ways around it are the language's: encoding/json writes a string key of a map as it is, so a Secret is never a key;
// and fmt does not ask a value about %p, which go vet refuses for a string.
type Secret string

// Reveal is the value.
func (s Secret) Reveal() string { return string(s) }

// String is Mark, or "" when there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Mark
}

// Format prints String for every verb, %x and %d of a careless line included.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	switch {
	case verb == 'v' && f.Flag('#'):
		text = fmt.Sprintf("redact.Secret(%q)", text)
	case verb == 'q':
		text = fmt.Sprintf("%q", text)
	}
	_, _ = io.WriteString(f, text) // whoever owns the writer reports what it cannot take
}

// MarshalText writes String, also in JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
