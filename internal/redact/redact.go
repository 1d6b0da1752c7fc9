// Package redact keeps secrets out of what is printed, logged and written.
//
// There are three cases, and one tool for each. A secret that the program holds is a Secret, which prints as Mark
// however it is printed. A URL may be one without anybody having said so (a webhook's path is its password): URL and
// Text leave only the scheme and the host. And output of other programs may repeat a secret that is known: a Replacer
// takes it out of the stream.
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

// MinLength is the length in bytes of the shortest secret that a Replacer replaces: shorter ones are parts of ordinary
// words.
const MinLength = 8

// Replacer puts Mark in the place of known secrets. It is immutable and may be used by many goroutines; a nil Replacer
// changes nothing.
type Replacer struct {
	values []string  // longest first
	starts [256]bool // first bytes of the values
}

// Values makes a Replacer for the given secrets and the forms in which programs print them: trimmed, escaped for JSON,
// escaped for a URL. Secrets shorter than MinLength are left out. It is nil when none remains.
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

// escaped writes s for a URL: letters, digits and the bytes of plain as they are. net/url does the same; it is not used
// because the shim that every recovery begins with has this package in it, and would start later for it.
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

// String replaces the secrets in s. Where two overlap both go.
func (r *Replacer) String(s string) string {
	if r == nil {
		return s
	}
	var left int
	return string(r.run(&left, nil, []byte(s), len(s)))
}

// Writer replaces the secrets in what is written to it, also those that are cut over several writes, and passes the
// rest to w. It holds back at most as many bytes as the longest secret has; Close writes them and does not close w.
func (r *Replacer) Writer(w io.Writer) io.WriteCloser { return &writer{r: r, w: w} }

// run appends buf[:n] to out with the secrets replaced. A secret that begins before n may end behind it: left is how
// many bytes from here still belong to one.
func (r *Replacer) run(left *int, out, buf []byte, n int) []byte {
	for i := range n {
		if r.starts[buf[i]] {
			for _, v := range r.values {
				if len(v) <= *left {
					break // the others are shorter still
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

// pass writes the first n held bytes.
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
