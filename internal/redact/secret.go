// Package redact keeps secrets out of what is printed, logged and written.
//
// There are three cases, and one tool for each. A secret that the program holds is a Secret, which prints as Mark
// however it is printed. A URL may be one without anybody having said so (a webhook's path is its password): URL and
// Text leave only the scheme and the host. And output of other programs may repeat a secret that is known: a Replacer
// takes it out of the stream.
package redact

import (
	"fmt"
	"io"
	"strings"
)

// Mark is what stands in the place of a secret.
const Mark = "<secret>"

// Secret is a string that is not printed: fmt in every verb, JSON, text and log encoders all get Mark, or nothing when
// it is empty. It can be read from JSON like a string. Only Reveal gives its value.
//
// Two ways around it are the language's: encoding/json writes a string key of a map as it is, so a Secret is never a
// key; and fmt does not ask a value about %p, which go vet refuses for a string.
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

// URL keeps the scheme and the host of a URL, and its port. User info, path, query and fragment are dropped. What is
// not a URL with a host becomes Mark, because then nobody can say which part of it is harmless; "" stays "".
func URL(raw string) string {
	if raw == "" {
		return ""
	}
	i := strings.Index(raw, "://")
	if i <= 0 || schemeStart(raw, i) != 0 {
		return Mark
	}
	return raw[:i+3] + host(raw[i+3:])
}

// Text applies URL to every URL in a text and leaves the rest as it is.
func Text(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "://")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		b.WriteString("://")
		end := strings.IndexFunc(rest, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`<>", r) })
		if end < 0 {
			end = len(rest)
		}
		url := rest[:end]
		if schemeStart(s, len(before)) < len(before) {
			url = host(url)
		}
		b.WriteString(url)
		s = rest[end:]
	}
}

// schemeStart finds where the scheme that ends before i begins; i if there is none.
func schemeStart(s string, i int) int {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	behind := strings.TrimRight(s[:i], letters+"0123456789+.-")
	return i - len(strings.TrimLeft(s[len(behind):i], "0123456789+.-"))
}

// host cuts a URL without its scheme down to host and port.
func host(rest string) string {
	if i := strings.IndexAny(rest, `/?#\`); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	name, port := rest, ""
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.HasSuffix(rest, "]") {
		name, port = rest[:i], rest[i+1:]
	}
	if name == "" {
		return Mark
	}
	// A port that is no number is a password whose "@" was cut off with the path.
	if strings.Trim(port, "0123456789") != "" || strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return Mark
	}
	return rest
}
