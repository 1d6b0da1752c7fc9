// Package inputs says whether the files that a listed command reads are what they were when its listing was trusted.
// "npm install" is a name; what it does stands in package.json, .npmrc and the lock file, which an agent may write.
//
//	Take ---> Baseline (a private file)          Open ---> the work tree, now
//	              |                                            |
//	              +---- Inputs(tree, query) ----+---- Inputs(tree, query)
//	                                            |
//	                                  Compare: []Change -> an operator
//
// Inputs is one function over both: from the words of a command it finds the files that count, and of each file the
// part that counts. A new dependency in package.json is no input, a new postinstall script is one. Check does the two
// calls and the comparison in one.
//
// # What counts
//
// The table is in table.go. For every program it names the files, the directories where they are looked for (the
// working directory, those above it up to the repository, the members of a workspace) and how a file is read. A program
// or script of the repository that the command names is an input, whole; so are the scripts that a shell script, a
// makefile or a script of package.json names in turn, as far as their words are written out.
//
// In doubt a thing is an input: a file that cannot be parsed counts whole, what is not in the baseline counts as new,
// and what exceeds a bound is a change by itself. Nothing here executes anything of the repository, and no file outside
// of it is opened: a link that leads out counts as its target's name.
//
// # Bounds
//
// Of one query: 50,000 directory entries, 64 MiB of content, 2,000 members, 4,000 inputs, 5,000 commands in scripts,
// 500 of one, 4 scripts deep; a file of more than 16 MiB counts whole by its digest, one of more than 256 MiB cannot be
// watched and is a change. Directories named node_modules, .git and .superloop are not searched.
//
// # What it does not see
//
// Source code. A compiler, a test runner or a script in JavaScript or Python reads more files than can be named
// beforehand: only the named script is an input, not what it imports. Installed code (node_modules, what npx finds
// there) is not watched either, unless the command itself names the file. What bounds the damage is the sandbox that
// the command runs in, not this package.
package inputs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Mode is how closely inputs are watched: recovery.guard of the config.
type Mode string

// The modes. Any other is taken as Scripts.
const (
	// Scripts watches what runs code or says where code comes from: scripts, plugins, registries, sources that are no
	// registry.
	Scripts Mode = "scripts"
	Strict  Mode = "strict" // watches every input whole: one changed byte is a change
	Off     Mode = "off"    // watches nothing
)

// Query is a command whose inputs are wanted.
type Query struct {
	WorkingDir string // where it runs, relative to the repository; "" is "."
	// Commands are the simple commands in it, in the order in which they are written, each as its words after quote
	// removal. What only the shell will know is Unknown in a word.
	Commands [][]string
	Mode     Mode
	// Repo, if it is given, is the repository's absolute path, so that words which are absolute paths below it are seen
	// for what they are.
	Repo string
}

// Unknown stands in a word for what is not written out.
const Unknown = "..."

// Input is something that a command reads.
type Input struct {
	Path string `json:"path"`           // from the repository, with slashes
	Part string `json:"part,omitempty"` // Part is the part of the file, such as scripts.postinstall; "" is the whole.
	For  string `json:"for"`            // the program that reads it
	Sum  string `json:"sum"`            // the SHA-256, in hex, of Text
	// Text is the part in a form that changes only with its meaning. It is nil where only the digest is known. It may
	// hold secrets (.npmrc); a Change masks them.
	Text []byte `json:"-"`

	id   string // of the whole file, as git names it
	lost string // why it cannot be watched
}

// Inputs finds what the command of q reads of t, sorted by path and part. Nothing is executed. A file that cannot be
// watched (see the bounds in the package's comment) is in the list all the same, and makes a Change whatever the other
// list says. The error is about the query: a working directory outside of the repository.
func Inputs(t Tree, q Query) ([]Input, error) {
	if q.Mode == Off {
		return nil, nil
	}
	r, err := newReader(t, q)
	if err != nil {
		return nil, err
	}
	return r.inputs(), nil
}

func newReader(t Tree, q Query) (*reader, error) {
	dir := q.WorkingDir
	if !path.IsAbs(dir) {
		dir = "./" + dir
	}
	dir, ok := Inside(q.Repo, ".", dir)
	if !ok {
		return nil, fmt.Errorf("finding the inputs: the working directory %q is not in the repository", q.WorkingDir)
	}
	r := &reader{tree: t, query: q, programs: table(), found: map[key]Input{}, files: map[string]*content{}, dirs: map[string]*listing{},
		seen: map[string]int{}, members: map[key][]string{}, steps: maxSteps, entries: maxEntries, bytes: maxBytes}
	r.sequence([]string{dir}, q.Commands, 0)
	return r, nil
}

// Digest is the SHA-256, in hex, over inputs in their order: equal digests mean equal inputs. It is what an approval is
// bound to, and what is computed again right before the command is executed.
func Digest(inputs []Input) string {
	h := sha256.New()
	for _, in := range inputs {
		fmt.Fprintf(h, "%d:%s%d:%s%s%d:%s\n", len(in.Path), in.Path, len(in.Part), in.Part, cmp.Or(in.Sum, in.id), len(in.lost), in.lost)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Report is what Check found.
type Report struct {
	Changes []Change // empty if every input is as it is in the baseline
	Digest  string   // of the inputs of the work tree
}

// Check compares the inputs of a command with a baseline. It knows more than Inputs of the baseline alone: of a file
// that the baseline has only a digest of, the content is that of the work tree, if the digest is the same.
func Check(base *Baseline, now *WorkTree, q Query) (Report, error) {
	here := *now
	here.format = base.objects()
	before, err := Inputs(borrowed{base, &here}, q)
	if err != nil {
		return Report{}, err
	}
	after, err := Inputs(&here, q)
	if err != nil {
		return Report{}, err
	}
	return Report{Compare(before, after), Digest(after)}, nil
}

// borrowed is a baseline that takes the content which it did not keep from the work tree, where that is still the same.
type borrowed struct {
	*Baseline
	now *WorkTree
}

func (b borrowed) read(name string) (content, error) {
	c, err := b.Baseline.read(name)
	if err != nil || c.text != nil || c.id == "" {
		return c, err
	}
	if n, err := b.now.read(name); err == nil {
		if n.name(b.Format); n.id == c.id && n.text != nil {
			return n, nil
		}
	}
	return c, nil
}

type key struct{ path, part string }

func (r *reader) inputs() []Input { return slices.SortedFunc(maps.Values(r.found), byPlace) }

func byPlace(a, b Input) int {
	return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Part, b.Part))
}
