package inputs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

// Baseline holds the files of a work tree as they were at one moment; Compare and Check compare inputs with it. Files
// that match a pattern of the table, and small programs, are stored with their content, the others with their digest. A
// Baseline never changes. It implements Tree.
type Baseline struct {
	header
	files []known // sorted by path
}

// header is the JSON object in the second line of a baseline file.
type header struct {
	Taken time.Time `json:"taken"` // UTC
	// Partial says that the work tree had more files than a baseline holds. Files that are missing in the baseline
	// count as new.
	Partial bool `json:"partial,omitempty"`
	Files   int  `json:"files"`
	// Accepted are the inputs that differ from the files of the baseline, and that an operator has trusted after a look
	// at the difference.
	Accepted []accepted `json:"accepted,omitempty"`
}

// accepted is an input that an operator has trusted. Sum is "" if it is the absence of the input that is trusted.
type accepted struct {
	Path string `json:"path"`
	Part string `json:"part,omitempty"`
	Sum  string `json:"sum,omitempty"`
}

// known is one entry of a baseline. The text of a link is its target. An empty sum was never computed.
type known struct {
	path string
	kind kind
	content
	stored bool // text holds the content
}

func byPath(a, b known) int { return cmp.Compare(a.path, b.path) }

func (b *Baseline) find(name string) (*known, bool) {
	if i, ok := b.from(name); ok {
		return &b.files[i], true
	}
	return nil, false
}

// from returns the index of the first file whose path is not less than name, and whether that file has the path name.
func (b *Baseline) from(name string) (int, bool) {
	return slices.BinarySearchFunc(b.files, name, func(k known, n string) int { return cmp.Compare(k.path, n) })
}

func (b *Baseline) list(dir string) ([]entry, error) {
	prefix := strings.TrimPrefix(dir+"/", "./")
	var out []entry
	for i, _ := b.from(prefix); i < len(b.files); {
		if prefix == "" && strings.HasPrefix(b.files[i].path, atHome) {
			i++
			continue
		}
		rest, ok := strings.CutPrefix(b.files[i].path, prefix)
		if !ok {
			break
		}
		name, _, deeper := strings.Cut(rest, "/")
		if !deeper {
			out = append(out, entry{name, b.files[i].kind})
			i++
			continue
		}
		out = append(out, entry{name, directory})
		i, _ = b.from(prefix + name + "0") // the character "0" follows "/" in ASCII
	}
	if len(out) == 0 && prefix != "" {
		return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	// The order of paths is not the order of names: the path "a.b" sorts before "a/".
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return slices.Compact(out), nil
}

func (b *Baseline) target(name string) (string, error) {
	k, ok := b.find(name)
	if !ok || k.kind != link {
		return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return string(k.text), nil
}

func (b *Baseline) read(name string) (content, error) {
	k, ok := b.find(name)
	if !ok || k.kind != regular {
		return content{}, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return k.content, nil
}

// interest holds the patterns of the table. A pattern applies in every directory.
type interest struct {
	names map[string]bool // file names without wildcards
	globs [][]string      // all other patterns, split at "/", without a leading "**"
}

func newInterest() interest {
	in := interest{names: map[string]bool{}}
	for _, p := range patterns() {
		if strings.ContainsAny(p, "/*?") {
			in.globs = append(in.globs, strings.Split(strings.TrimPrefix(p, "**/"), "/"))
		} else {
			in.names[p] = true
		}
	}
	return in
}

// in reports whether the path matches one of the patterns.
func (in interest) in(file string) bool {
	if in.names[path.Base(file)] {
		return true
	}
	segs := strings.Split(file, "/")
	for _, g := range in.globs {
		for i := range segs {
			if matches(g, segs[i:]) {
				return true
			}
		}
	}
	return false
}

// matches reports whether segs match glob. A "**" can only be the last element of glob; it matches one name or more.
func matches(glob, segs []string) bool {
	for i, g := range glob {
		if i >= len(segs) {
			return false
		}
		if g == "**" {
			return true
		}
		if ok, _ := path.Match(g, segs[i]); !ok {
			return false
		}
	}
	return len(glob) == len(segs)
}

// A baseline file consists of, in this order: the line magic; the header as one line of JSON; for each file a record
// "kind size sum path" that ends with NUL and has "-" for an unknown value; the stored contents, one after another;
// the SHA-256 of everything before.

const (
	magic       = "superloop baseline 2\n"
	maxBaseline = 512 << 20
)

func (b *Baseline) encode() []byte {
	h := b.header
	h.Files = len(b.files)
	head, _ := json.Marshal(h) // strings, numbers, a bool and a time can always be marshalled
	out := []byte(magic)
	out = append(append(out, head...), '\n')
	for _, k := range b.files {
		flags := map[kind]string{regular: "f", link: "l", odd: "o"}[k.kind]
		for i, on := range []bool{k.exec, k.stored} {
			if on {
				flags += "xs"[i : i+1]
			}
		}
		size := k.size
		if k.stored {
			size = int64(len(k.text))
		}
		out = fmt.Appendf(out, "%s %d %s %s\x00", flags, size, cmp.Or(k.sum, "-"), k.path)
	}
	for _, k := range b.files {
		if k.stored {
			out = append(out, k.text...)
		}
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

var errBaseline = errors.New("it is no baseline, or a damaged one")

// load reads a baseline that save has written. If the file is missing, errors.Is(err, fs.ErrNotExist) is true.
func load(file string) (*Baseline, error) {
	data, err := door.Read(file, maxBaseline)
	if err != nil {
		return nil, fmt.Errorf("reading the baseline: %w", err)
	}
	b, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("reading the baseline %s: %w", file, err)
	}
	return b, nil
}

func decode(data []byte) (*Baseline, error) {
	n := max(len(data)-sha256.Size, 0)
	body, ok := bytes.CutPrefix(data[:n], []byte(magic))
	if sum := sha256.Sum256(data[:n]); !ok || !bytes.Equal(sum[:], data[n:]) {
		return nil, errBaseline
	}
	line, body, ok := bytes.Cut(body, []byte{'\n'})
	var h header
	if err := text.Decode(line, &h); err != nil || !ok || h.Files < 0 || h.Files > len(body) {
		return nil, errBaseline
	}
	b := &Baseline{header: h, files: make([]known, 0, h.Files)}
	for range h.Files {
		rec, rest, ok := bytes.Cut(body, []byte{0})
		f := strings.SplitN(string(rec), " ", 4)
		if !ok || len(f) != 4 || f[0] == "" || f[3] == "" {
			return nil, errBaseline
		}
		body = rest
		size, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || size < 0 {
			return nil, errBaseline
		}
		k := known{path: f[3], kind: map[byte]kind{'f': regular, 'l': link, 'o': odd}[f[0][0]],
			content: content{size: size, sum: strings.TrimPrefix(f[2], "-"), exec: strings.Contains(f[0], "x")}, stored: strings.Contains(f[0], "s")}
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
