package redact

import "strings"

// URL keeps the scheme and the host of a URL, and its port. User info, path,
// query and fragment are dropped. What is not a URL with a host becomes Mark,
// because then nobody can say which part of it is harmless; "" stays "".
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
		i := strings.Index(s, "://")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		rest := s[i+3:]
		end := strings.IndexFunc(rest, func(r rune) bool {
			return r <= ' ' || strings.ContainsRune("\"'`<>", r)
		})
		if end < 0 {
			end = len(rest)
		}
		b.WriteString(s[:i+3])
		if schemeStart(s, i) < i {
			b.WriteString(host(rest[:end]))
		} else {
			b.WriteString(rest[:end])
		}
		s = rest[end:]
	}
}

// Error gives an error that prints as Text of err and unwraps to err, so that
// errors.Is and errors.As still work; nil stays nil. net/http puts the whole
// URL into every error: none of its errors may be printed without this.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return &scrubbed{err}
}

type scrubbed struct{ err error }

func (e *scrubbed) Error() string { return Text(e.err.Error()) }
func (e *scrubbed) Unwrap() error { return e.err }

// schemeStart finds where the scheme that ends before i begins; i if there is
// none.
func schemeStart(s string, i int) int {
	at := i
	for at > 0 {
		c := s[at-1] | 0x20
		if !(c >= 'a' && c <= 'z' || s[at-1] >= '0' && s[at-1] <= '9' || strings.IndexByte("+.-", s[at-1]) >= 0) {
			break
		}
		at--
	}
	for at < i && !(s[at]|0x20 >= 'a' && s[at]|0x20 <= 'z') {
		at++
	}
	return at
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
