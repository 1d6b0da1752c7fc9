// Package redact keeps secrets out of texts that superloop prints, logs and writes.
//
// It has one tool for each of three cases. A Secret is a secret that the program holds; every way of printing it gives
// Mark. URL and Text shorten URLs to scheme, host and port, because a URL may be a secret without any mark (the path of
// a webhook is its password). A Replacer removes known secrets from a stream, such as the output of another program.
package redact

import (
	"bytes"
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

// Replacer replaces known secrets by Mark. It is immutable, so many goroutines may use it. A nil Replacer changes
// nothing.
type Replacer struct {
	values []string  // sorted, the longest first
	starts [256]bool // the first bytes of the values
}

// Values returns a Replacer for the given secrets and for the forms in which programs print them: trimmed, escaped for
// JSON, escaped for a URL. It omits forms shorter than MinLength, and returns nil if none remains.
func Values(secrets []string) *Replacer {
	var all []string
	for _, s := range secrets {
		for _, v := range []string{s, strings.TrimSpace(s)} {
			all = append(all, v, escaped(v, "-_.~", "+"), escaped(v, "-_.~$&+=:@", "%20"), jsonEscape(v))
		}
	}
	all = slices.DeleteFunc(all, func(v string) bool { return len(v) < MinLength })
	if len(all) == 0 {
		return nil
	}
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

// String replaces the secrets in s. If two secrets overlap, it replaces both.
func (r *Replacer) String(s string) string {
	if r == nil {
		return s
	}
	var left int
	return string(r.run(&left, nil, []byte(s), len(s)))
}

// Writer returns a writer that replaces the secrets in its input and passes the rest to w. It also replaces secrets
// that are split over several writes. It holds back fewer bytes than the longest secret has. Close writes them and does
// not close w.
func (r *Replacer) Writer(w io.Writer) io.WriteCloser { return &writer{r: r, w: w} }

// run appends buf[:n] to out with the secrets replaced. A secret that begins before n may end after it: left is the
// number of bytes from here on that still belong to a secret.
func (r *Replacer) run(left *int, out, buf []byte, n int) []byte {
	for i := range n {
		if r.starts[buf[i]] {
			for _, v := range r.values {
				if len(v) <= *left {
					break // the remaining values are shorter
				}
				if bytes.HasPrefix(buf[i:], []byte(v)) {
					if *left == 0 {
						out = append(out, Mark...)
					}
					*left = len(v)
					break
				}
			}
		}
		if *left > 0 {
			*left--
		} else {
			out = append(out, buf[i])
		}
	}
	return out
}

type writer struct {
	r    *Replacer
	w    io.Writer
	left int // see run
	held []byte
	out  []byte
}

func (w *writer) Write(p []byte) (int, error) {
	if w.r == nil {
		return w.w.Write(p)
	}
	w.held = append(w.held, p...)
	if err := w.pass(len(w.held) - (len(w.r.values[0]) - 1)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *writer) Close() error {
	if w.r == nil {
		return nil
	}
	return w.pass(len(w.held))
}

// pass replaces the secrets in the first n held bytes and writes the result.
func (w *writer) pass(n int) error {
	if n <= 0 {
		return nil
	}
	w.out = w.r.run(&w.left, w.out[:0], w.held, n)
	w.held = append(w.held[:0], w.held[n:]...)
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.w.Write(w.out)
	return err
}
