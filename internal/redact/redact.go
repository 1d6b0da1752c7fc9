// Package redact keeps secrets out of texts that superloop prints, logs and writes.
//
// It has one tool for each of three cases. A Secret is a secret that the program holds; every way of printing it gives
// Mark. URL and Text shorten URLs to scheme, host and port, because a URL may be a secret without any mark (the path of
// a webhook is its password). A Replacer removes known secrets from a stream, such as the output of another program.
package redact

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Mark replaces a secret in a text.
const Mark = "<secret>"

// Secret is a string that is not printed. fmt with every verb, and encoders for JSON, text and logs, write Mark, or
// nothing if the Secret is empty. A Secret can be decoded from JSON like a string. Only Reveal returns its value.
//
// Go leaves two ways to print the value. encoding/json writes a string key of a map unchanged, so a Secret must not be
// such a key. fmt does not call methods for %p, but go vet refuses %p for a string.
type Secret string

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// String returns Mark, or "" if the Secret is empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Mark
}

// Format writes String for every verb, also for a wrong one such as %x or %d.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	switch {
	case verb == 'v' && f.Flag('#'):
		text = fmt.Sprintf("redact.Secret(%q)", text)
	case verb == 'q':
		text = fmt.Sprintf("%q", text)
	}
	_, _ = io.WriteString(f, text) // the owner of the writer reports a failed write
}

// MarshalText returns String. JSON uses it, too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// URL keeps the scheme, the host and the port of a URL. It drops user info, path, query and fragment. Text that is not
// a URL with a host becomes Mark, because URL cannot tell which part of it is harmless. "" stays "".
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

// Text applies URL to every URL in a text and leaves the rest unchanged.
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

// schemeStart returns where the scheme that ends at i begins. It returns i if there is none.
func schemeStart(s string, i int) int {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	behind := strings.TrimRight(s[:i], letters+"0123456789+.-")
	return i - len(strings.TrimLeft(s[len(behind):i], "0123456789+.-"))
}

// host returns the host and the port of a URL without its scheme.
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
	// A port that is not a number is part of a password. The cut above has removed the "@" behind the password.
	if strings.Trim(port, "0123456789") != "" || strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return Mark
	}
	return rest
}

// MinLength is the length in bytes of the shortest secret that a Replacer replaces. A shorter secret could be part of
// ordinary words.
const MinLength = 8

// Replacer replaces known secrets by Mark, and tokens of well-known forms (see forms.go) whether they are known or not.
// It is immutable, so many goroutines may use it. A nil Replacer changes nothing.
type Replacer struct {
	values []string  // sorted, the longest first
	starts [256]bool // the first bytes of the values
}

// Values returns a Replacer for the given secrets and for the forms in which programs print them: trimmed, escaped for
// JSON, escaped for a URL. It omits forms shorter than MinLength. Without a secret it replaces tokens by their form only.
func Values(secrets []string) *Replacer {
	var all []string
	for _, s := range secrets {
		for _, v := range []string{s, strings.TrimSpace(s)} {
			all = append(all, v, escaped(v, "-_.~", "+"), escaped(v, "-_.~$&+=:@", "%20"), jsonEscape(v))
		}
	}
	all = slices.DeleteFunc(all, func(v string) bool { return len(v) < MinLength })
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	all = slices.Compact(all)
	r := &Replacer{values: all}
	for _, v := range all {
		r.starts[v[0]] = true
	}
	return r
}

// escaped escapes s for a URL, except for letters, digits and the bytes of plain. net/url does the same, but the helper
// process with which every recovery begins contains this package and would start later with it.
func escaped(s, plain, blank string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(plain, c) >= 0:
			b.WriteByte(c)
		case c == ' ':
			b.WriteString(blank)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func jsonEscape(s string) string {
	b, _ := json.Marshal(s) // a string can always be encoded
	return string(b[1 : len(b)-1])
}
