package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
)

// accepts reports whether an operator has trusted the change.
func (b *Baseline) accepts(c Change) bool {
	return c.Kind != Lost && slices.Contains(b.Accepted, accepted{c.Path, c.Part, c.sum})
}

// advanced returns base with what an operator has changed: the files of now that differ from end. A file stays as base
// has it if end holds a change of it that nobody has trusted, or if what is new of it was made during a run.
func advanced(base, end, now *Baseline, d *doubts, strict bool) *Baseline {
	out := &Baseline{header: now.header}
	out.Accepted, out.Partial = slices.Clone(base.Accepted), base.Partial || now.Partial
	paths := map[string]bool{}
	for _, tree := range []*Baseline{base, end, now} {
		for _, k := range tree.files {
			paths[k.path] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		was, _ := base.find(p)
		left, _ := end.find(p)
		is, _ := now.find(p)
		unsure := (left == nil || is == nil) && unwalked(p) || left == nil && end.Partial || is == nil && now.Partial
		if unsure || equal(left, is) {
			out.put(was)
			continue
		}
		open := untrusted(base, p, was, left, strict)
		if open || d.covers(p, was, left, is) {
			out.put(was)
			continue
		}
		out.put(is)
		out.Accepted = slices.DeleteFunc(out.Accepted, func(a accepted) bool { return a.Path == p })
	}
	return out
}

func (b *Baseline) put(k *known) {
	if k != nil {
		b.files = append(b.files, *k)
	}
}

// equal reports whether two entries of a path, nil if it does not exist, are the same file. A file that was not read
// counts as the same, so that nothing is concluded from it.
func equal(a, b *known) bool {
	switch {
	case a == nil || b == nil:
		return a == b
	case a.kind != b.kind:
		return false
	case a.kind == regular:
		return a.sum == "" || b.sum == "" || a.sum == b.sum && a.exec == b.exec
	}
	return string(a.text) == string(b.text)
}

// untrusted reports whether a file in the tree at the end of a run (left) differs from the baseline (was) in a part that
// a command may read, and that no operator has trusted.
func untrusted(base *Baseline, p string, was, left *known, strict bool) bool {
	if equal(was, left) && (left == nil || left.kind != regular || left.sum != "" && was.sum != "") {
		return false
	}
	whole := accepted{Path: p}
	if left != nil {
		whole.Sum = left.identity()
	}
	if slices.Contains(base.Accepted, whole) {
		return false
	}
	if strict || was == nil && left.kind != regular || was != nil && left != nil && (was.kind != regular || left.kind != regular) {
		return true
	}
	var before, after map[string]string
	known := true
	if was != nil {
		before, known = partsOf(p, was)
	}
	if left != nil && known {
		after, known = partsOf(p, left)
	}
	if !known {
		return true
	}
	for name := range both(before, after) {
		if a := (accepted{p, name, after[name]}); before[name] != after[name] && !slices.Contains(base.Accepted, a) {
			return true
		}
	}
	return false
}

func both[V any](a, b map[string]V) map[string]V {
	out := map[string]V{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// identity names the content of a file as an input has it in Sum.
func (k *known) identity() string {
	if k.kind == link {
		return sumOf("a link to " + string(k.text))
	}
	return k.sum
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// partsOf returns the digests of the parts of a file that any program of the table reads. It returns false if the whole
// file counts.
func partsOf(p string, k *known) (map[string]string, bool) {
	if !k.stored || strings.HasPrefix(p, atHome) {
		return nil, false
	}
	out, some := map[string]string{}, false
	for _, program := range table() {
		for _, s := range program.sources {
			if !matchesSource(s.pattern, p) {
				continue
			}
			if s.parts == nil {
				return nil, false
			}
			parts, ok := s.parts(k.text)
			if !ok {
				return nil, false
			}
			some = true
			for _, x := range parts {
				out[x.name] = sumOf(x.text)
			}
		}
	}
	if name := path.Base(p); name == "package.json" || name == "composer.json" {
		v, err := jsonObject(k.text)
		if err != nil {
			return nil, false
		}
		if scripts, ok := v["scripts"].(map[string]any); ok {
			for name, text := range scripts {
				out["scripts."+name] = sumOf(jsonText(text))
			}
		}
		if members, ok := v["workspaces"]; ok {
			out["workspaces"] = sumOf(jsonText(members))
		}
	}
	return out, some
}

func matchesSource(pattern, p string) bool {
	if !strings.Contains(pattern, "/") {
		return matches([]string{pattern}, []string{path.Base(p)})
	}
	in := interest{globs: [][]string{strings.Split(strings.TrimPrefix(pattern, "**/"), "/")}}
	return in.in(p)
}

// doubts are the contents that were made during runs and that nobody has trusted: whole files, and the lines that were
// added or removed. They have no path, so that a file does not become trusted by being moved.
type doubts struct {
	// All says that there were too many to remember. Then every change is doubtful.
	All   bool            `json:"all,omitempty"`
	Items map[string]bool `json:"items"`
	fresh bool            // there are new ones
}

const maxDoubts = 500_000

// doubts reads the file of them. If it cannot be used, every change is doubtful, and the next write replaces it.
func (l Ledger) doubts() *doubts {
	d := &doubts{Items: map[string]bool{}}
	data, err := door.Read(l.file("doubts.json"), maxState)
	if errors.Is(err, fs.ErrNotExist) || err == nil && json.Unmarshal(data, d) == nil && d.Items != nil {
		return d
	}
	return &doubts{All: true, Items: map[string]bool{}, fresh: true}
}

func (d *doubts) note(item string) {
	switch {
	case d.All || d.Items[item]:
	case len(d.Items) >= maxDoubts:
		d.All, d.fresh = true, true
	default:
		d.Items[item], d.fresh = true, true
	}
}

// add notes what end has, or lacks, and nobody has trusted.
func (d *doubts) add(base, end *Baseline, strict bool) {
	paths := map[string]bool{}
	for _, tree := range []*Baseline{base, end} {
		for _, k := range tree.files {
			paths[k.path] = true
		}
	}
	for p := range paths {
		was, _ := base.find(p)
		left, _ := end.find(p)
		if unwalked(p) || !untrusted(base, p, was, left, strict) {
			continue
		}
		if left == nil {
			d.note("gone " + p)
			continue
		}
		if id := left.identity(); id != "" {
			d.note("file " + id)
		}
		before, after := linesOf(was), linesOf(left)
		for line := range after {
			if !before[line] {
				d.note("+" + line)
			}
		}
		for line := range before {
			if !after[line] && left.stored {
				d.note("-" + line)
			}
		}
	}
}

// covers reports whether the change of a file between runs, from left to is, brings what was made during a run. What
// the file had at the end of the last run is trusted, as is what it has in the baseline.
func (d *doubts) covers(p string, was, left, is *known) bool {
	switch {
	case d.All:
		return true
	case is == nil:
		return d.Items["gone "+p]
	case d.Items["file "+is.identity()] && !equal(was, is):
		return true
	}
	now, known := linesOf(is), both(linesOf(was), linesOf(left))
	for line := range now {
		if !known[line] && d.Items["+"+line] {
			return true
		}
	}
	for line := range linesOf(left) {
		if !now[line] && d.Items["-"+line] {
			return true
		}
	}
	return false
}

// minLine is the length from which a line says where it comes from. A bracket or an else says nothing.
const minLine = 6

// linesOf returns the digests of the lines of a stored file, without blanks, commas and semicolons at their ends. Of a
// file of which only parts count it returns those of the parts, too.
func linesOf(k *known) map[string]bool {
	out := map[string]bool{}
	if k == nil || !k.stored || k.kind != regular || len(k.text) > maxScript {
		return out
	}
	for line := range strings.Lines(string(k.text)) {
		if line = strings.Trim(line, " \t\r\n,;"); len(line) >= minLine {
			out[sumOf(line)[:16]] = true
		}
	}
	parts, _ := partsOf(k.path, k)
	for name, sum := range parts {
		out[sumOf(name + " " + sum)[:16]] = true
	}
	return out
}
