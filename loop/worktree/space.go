package worktree

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/door"
)

const (
	maxCompared = 1 << 20 // bytes; a larger file is not searched for a change beyond white space
	maxLooked   = 200     // files that are compared; if all of them differ in white space only, the rest is not looked at
)

// BeyondSpace reports whether one of the paths, which differ between a and b, differs in more than white space. b must
// be a snapshot of the present tree.
//
// White space is between two words or it is not. Its kind, its amount, blank lines, and blanks beside punctuation do
// not count. In files whose indentation has a meaning (Python, YAML, Makefiles and a few more) the lines and the depth
// of their indentation count, too. An empty new file is no change beyond white space.
//
// BeyondSpace reports true if it cannot compare cheaply: a binary file, a link, a submodule, another mode, more than
// 1 MiB, or a file whose old content git does not have, because it was not committed or staged when a was taken.
func (r *Repo) BeyondSpace(ctx context.Context, a, b Snapshot, paths []string) (bool, error) {
	for i, p := range paths {
		if i == maxLooked {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		was, is := a.at(p), b.at(p)
		if was.mode != is.mode && was.path != "" && is.path != "" || !plainFile(was) || !plainFile(is) {
			return true, nil
		}
		before, known := r.stored(ctx, was)
		after, read := r.present(is)
		if !known || !read || significant(p, before) != significant(p, after) {
			return true, nil
		}
	}
	return false, nil
}

// plainFile reports whether an entry is that of a regular file with an object id, or the zero entry.
func plainFile(e entry) bool { return e.path == "" || e.mode == modeFile || e.mode == modeExec }

// stored returns the content that git has for an entry. It ignores replacements of objects, which an agent can make.
func (r *Repo) stored(ctx context.Context, e entry) (data []byte, ok bool) {
	if e.path == "" {
		return nil, true
	}
	id := hex.EncodeToString(e.sum[:20])
	if r.git.SHA256 {
		id = hex.EncodeToString(e.sum[:])
	}
	size, err := r.line(ctx, "--no-replace-objects", "cat-file", "-s", id)
	if n, bad := strconv.Atoi(size); err != nil || bad != nil || n > maxCompared {
		return nil, false
	}
	data, err = r.read(ctx, "--no-replace-objects", "cat-file", "blob", id)
	return data, err == nil && !bytes.ContainsRune(data, 0)
}

// present returns the content of the file of an entry in the work tree.
func (r *Repo) present(e entry) (data []byte, ok bool) {
	if e.path == "" {
		return nil, true
	}
	data, err := door.Read(filepath.Join(r.Top, e.path), maxCompared)
	return data, err == nil && !bytes.ContainsRune(data, 0)
}

// indented lists the extensions of files in which indentation has a meaning.
var indented = strings.Fields(".py .pyi .pyx .yaml .yml .mk .nim .coffee .haml .pug .jade .sass .styl .hs .fs .rst")

// significant returns the content of a file without the white space that BeyondSpace does not count.
func significant(file string, data []byte) string {
	name := path.Base(file)
	for _, ext := range append(indented, "Makefile", "makefile") {
		if strings.HasSuffix(name, ext) {
			return byLines(data)
		}
	}
	return words(string(data))
}

// words returns s with one blank for white space between two words, and without other white space.
func words(s string) string {
	var out strings.Builder
	var last rune
	blank := false
	for _, c := range s {
		if unicode.IsSpace(c) {
			blank = true
			continue
		}
		if blank && wordy(last) && wordy(c) {
			out.WriteByte(' ')
		}
		out.WriteRune(c)
		last, blank = c, false
	}
	return out.String()
}

func wordy(c rune) bool {
	return c == '_' || c == utf8.RuneError || unicode.IsLetter(c) || unicode.IsDigit(c)
}

// byLines returns each line that is not blank with the depth of its indentation.
func byLines(data []byte) string {
	var out strings.Builder
	var depths []int // the widths of the enclosing indentations
	for line := range strings.Lines(string(data)) {
		text := strings.TrimLeftFunc(line, unicode.IsSpace)
		if text == "" {
			continue
		}
		indent := line[:len(line)-len(text)]
		width := len(strings.ReplaceAll(indent, "\t", "        "))
		for len(depths) > 0 && depths[len(depths)-1] > width {
			depths = depths[:len(depths)-1]
		}
		if width > 0 && (len(depths) == 0 || depths[len(depths)-1] < width) {
			depths = append(depths, width)
		}
		fmt.Fprintf(&out, "%d %t %s\n", len(depths), strings.HasPrefix(indent, "\t"), words(text))
	}
	return out.String()
}
