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
