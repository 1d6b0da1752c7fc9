package redact

import "io"

// String replaces the secrets in s. If two secrets overlap, it replaces both.
func (r *Replacer) String(s string) string {
	if r == nil {
		return s
	}
	var at place
	out, _ := r.run(&at, nil, []byte(s), len(s), true)
	return string(out)
}

// Writer returns a writer that replaces the secrets in its input and passes the rest to w. It also replaces secrets
// that are split over several writes. It holds back fewer bytes than the longest known secret has, or than it needs to
// tell whether a token begins, at most 511. Close writes them and does not close w.
func (r *Replacer) Writer(w io.Writer) io.WriteCloser { return &writer{r: r, w: w} }

// place is what run must know of the bytes before.
type place struct {
	left   int    // the bytes from here on that still belong to a known secret
	wait   int    // the bytes from here on behind which a token begins that has span bytes
	span   int    // the bytes that still belong to a token
	begins bool   // wait is over: here the token begins
	more   uint8  // the alphabet of the bytes behind these that belong to the token, too; 0: none
	length int    // the bytes of the token that more has covered
	before []byte // the last bytes before the buffer
}

func (at *place) idle() bool { return at.left == 0 && at.span == 0 && at.more == 0 }

func (at *place) hides() bool { return at.left > 0 || at.wait == 0 && (at.span > 0 || at.more != 0) }

const (
	longestKey = 16 << 10 // bytes of a private key; behind these it is none
	lookBack   = 12       // bytes before a token that say whether it may begin there
)

// run appends the first n bytes of buf to out, or fewer, with the secrets replaced. It returns how many. A secret that
// begins among them may end behind them. It stops early where it must know more of a token; with whole it never does.
func (r *Replacer) run(at *place, out, buf []byte, n int, whole bool) ([]byte, int) {
	for i := 0; i < n; i++ {
		if at.idle() { // most bytes begin nothing
			from := i
			for i < n && i+1 < len(buf) && !r.starts[buf[i]] && starts.two[int(buf[i])<<8|int(buf[i+1])] == 0 {
				i++
			}
			if out = append(out, buf[from:i]...); i == n {
				break
			}
		}
		hidden := at.left > 0 || at.hides() && !at.begins
		if at.wait == 0 && at.span == 0 && at.more != 0 && at.ends(buf[i:], whole) {
			return out, at.keepBefore(buf[:i])
		}
		if at.span == 0 && at.more == 0 {
			t := look(at.back(buf, i), buf[i:], whole)
			if t.open && len(buf)-i < ahead {
				return out, at.keepBefore(buf[:i])
			}
			if t.n > 0 {
				at.wait, at.span, at.more, at.length = t.keep, t.n, t.more, 0
			}
		}
		if r.starts[buf[i]] {
			at.left = max(at.left, r.value(buf[i:], at.left))
		}
		switch {
		case !at.hides():
			out = append(out, buf[i])
		case !hidden:
			out = append(out, Mark...)
		}
		at.step()
	}
	return out, at.keepBefore(buf[:n])
}

// value returns the length of the longest known secret that begins text, if it is longer than least, else 0.
func (r *Replacer) value(text []byte, least int) int {
	for _, v := range r.values {
		if len(v) <= least {
			break // the remaining values are shorter
		}
		if len(v) <= len(text) && string(text[:len(v)]) == v {
			return len(v)
		}
	}
	return 0
}

// ends looks whether the token ends before the first byte of text, or with what follows. open says that more must be
// known for that.
func (at *place) ends(text []byte, whole bool) (open bool) {
	if at.more == lines && text[0] == '-' {
		end, open := endOfPEM(text, whole)
		if open {
			return true
		}
		if end > 0 {
			at.span, at.more = end, 0
			return false
		}
	}
	if at.length++; alphabet[text[0]]&at.more == 0 || at.more == lines && at.length > longestKey {
		at.more = 0
	}
	return false
}

// step goes on by one byte.
func (at *place) step() {
	at.left = max(0, at.left-1)
	if at.begins = at.wait == 1; at.wait > 0 {
		at.wait--
	} else {
		at.span = max(0, at.span-1)
	}
}

// back returns some of the bytes before buf[i].
func (at *place) back(buf []byte, i int) []byte {
	if i >= lookBack || len(at.before) == 0 {
		return buf[max(0, i-lookBack):i]
	}
	return append(at.before[:len(at.before):len(at.before)], buf[:i]...)
}

// keepBefore remembers the last of the bytes that are done, and returns their number.
func (at *place) keepBefore(done []byte) int {
	at.before = append(at.before, done[max(0, len(done)-lookBack):]...)
	at.before = append(at.before[:0], at.before[max(0, len(at.before)-lookBack):]...)
	return len(done)
}

type writer struct {
	r    *Replacer
	w    io.Writer
	at   place
	held []byte
	out  []byte
}

func (w *writer) Write(p []byte) (int, error) {
	if w.r == nil {
		return w.w.Write(p)
	}
	w.held = append(w.held, p...)
	n := len(w.held)
	if len(w.r.values) > 0 {
		n -= len(w.r.values[0]) - 1
	}
	if err := w.pass(n, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *writer) Close() error {
	if w.r == nil {
		return nil
	}
	return w.pass(len(w.held), true)
}

// pass replaces the secrets in the first n held bytes, or in fewer, and writes the result.
func (w *writer) pass(n int, whole bool) error {
	if n <= 0 {
		return nil
	}
	var done int
	w.out, done = w.r.run(&w.at, w.out[:0], w.held, n, whole)
	w.held = append(w.held[:0], w.held[done:]...)
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.w.Write(w.out)
	return err
}
