package inputs

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// A baseline's file is, in this order: the line magic; a line of JSON, the header; for each file "kind size id sum
// path" with a NUL behind it, "-" for what is not known; the content of those that are stored, one after another; and
// the SHA-256 of all that.

const (
	magic       = "superloop baseline 1\n"
	maxBaseline = 512 << 20
)

type header struct {
	From    Source    `json:"from"`
	Commit  string    `json:"commit,omitempty"`
	Taken   time.Time `json:"taken"`
	Partial bool      `json:"partial,omitempty"`
	Format  string    `json:"format"`
	Files   int       `json:"files"`
}

func (b *Baseline) encode() []byte {
	// A struct of strings, a time and numbers is always written.
	head, _ := json.Marshal(header{b.From, b.Commit, b.Taken, b.Partial, b.format, len(b.files)})
	out := []byte(magic)
	out = append(append(out, head...), '\n')
	for _, k := range b.files {
		kd := map[kind]byte{regular: 'f', link: 'l', odd: 'o'}[k.kind]
		flags := []byte{kd}
		for _, f := range []struct {
			on bool
			c  byte
		}{{k.exec, 'x'}, {k.untracked, 'u'}, {k.stored, 's'}} {
			if f.on {
				flags = append(flags, f.c)
			}
		}
		size := k.size
		if k.stored {
			size = int64(len(k.text))
		}
		out = fmt.Appendf(out, "%s %d %s %s %s\x00", flags, size, dash(k.id), dash(k.sum), k.path)
	}
	for _, k := range b.files {
		if k.stored {
			out = append(out, k.text...)
		}
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

var errBaseline = errors.New("it is no baseline, or a damaged one")

// Load reads a baseline that Take has kept. One that is missing is an error that is fs.ErrNotExist.
func Load(file string) (*Baseline, error) {
	data, err := durable.Read(file, maxBaseline)
	if err != nil {
		return nil, fmt.Errorf("reading the baseline: %w", err)
	}
	b, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("reading the baseline %s: %w; take a new one", file, err)
	}
	return b, nil
}

func decode(data []byte) (*Baseline, error) {
	body, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(body) < sha256.Size {
		return nil, errBaseline
	}
	n := len(data) - sha256.Size
	if sum := sha256.Sum256(data[:n]); !bytes.Equal(sum[:], data[n:]) {
		return nil, errBaseline
	}
	body = body[:len(body)-sha256.Size]
	line, body, ok := bytes.Cut(body, []byte{'\n'})
	var h header
	if err := json.Unmarshal(line, &h); err != nil || !ok || h.Files < 0 || h.Files > len(body) || h.Format != formatSHA1 && h.Format != formatSHA256 {
		return nil, errBaseline
	}
	b := &Baseline{From: h.From, Commit: h.Commit, Taken: h.Taken, Partial: h.Partial, format: h.Format, files: make([]known, 0, h.Files)}
	for range h.Files {
		rec, rest, ok := bytes.Cut(body, []byte{0})
		f := strings.SplitN(string(rec), " ", 5)
		if !ok || len(f) != 5 || f[0] == "" || f[4] == "" {
			return nil, errBaseline
		}
		body = rest
		size, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || size < 0 {
			return nil, errBaseline
		}
		k := known{path: f[4], size: size, id: strings.TrimPrefix(f[2], "-"), sum: strings.TrimPrefix(f[3], "-"),
			kind:   map[byte]kind{'f': regular, 'l': link, 'o': odd}[f[0][0]],
			exec:   strings.Contains(f[0], "x"),
			stored: strings.Contains(f[0], "s"), untracked: strings.Contains(f[0], "u")}
		if k.kind == missing || len(b.files) > 0 && b.files[len(b.files)-1].path >= k.path {
			return nil, errBaseline
		}
		b.files = append(b.files, k)
	}
	for i := range b.files {
		k := &b.files[i]
		if !k.stored {
			continue
		}
		if k.size > int64(len(body)) {
			return nil, errBaseline
		}
		k.text, body = body[:k.size:k.size], body[k.size:]
	}
	if len(body) > 0 {
		return nil, errBaseline
	}
	return b, nil
}
