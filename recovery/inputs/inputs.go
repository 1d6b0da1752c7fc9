// Package inputs decides whether the files that a listed command reads have changed since an operator trusted its
// listing. The command "npm install" is only a name: package.json, .npmrc and the lock file decide what it does, and an
// agent may write them.
//
//	Ledger ---> Baseline (a private file)        Open ---> the work tree, now
//	              |                                            |
//	              +---- Inputs(tree, query) ----+---- Inputs(tree, query)
//	                                            |
//	                                  Compare: []Change -> an operator
//
// Inputs is one function for both trees: from the words of a command it finds the files that count, and the parts of
// each file that count. A new dependency in package.json is not an input, a new postinstall script is one. Check calls
// Inputs for both trees and compares the results.
//
// # What counts
//
// The table in table.go lists for every program its files, the directories where the program looks for them (the
// working directory, the directories above it up to the repository, the members of a workspace) and how each file is
// read. A program or script of the repository that the command names is an input, whole. So are the scripts that a
// shell script, a makefile or a script of package.json calls, as far as their names are written out.
//
// In doubt a file counts. A file that cannot be parsed counts whole, a file that is missing in the baseline counts as
// new, and an input that exceeds a bound counts as a change. The package executes nothing. Outside of the repository it
// opens only the files of a command below the home directory (Outside). A link that leads out counts as the name of its
// target.
//
// # Bounds
//
// One query reads at most 50,000 directory entries, 64 MiB of content, 2,000 members, 4,000 inputs, scripts of at most
// 1 MiB with 5,000 commands each and 20,000 together, 32 directories to which they change, and scripts nested 12 deep.
// What lies beyond a bound is not looked at, and so counts as a change. A file of more than 16 MiB counts whole by its
// digest. A file of more than 256 MiB cannot be watched and
// counts as a change. No search enters directories named node_modules, .git and .superloop.
//
// # What it does not see
//
// Source code. A compiler, a test runner or a script in JavaScript or Python reads more files than the table can name
// beforehand: only the named script is an input, not the modules that it imports. Installed code (node_modules, also
// when npx runs it) is not watched either, unless the command itself names the file. The sandbox in which the command
// runs limits the damage that such code can do; this package does not.
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

// Mode says how closely inputs are watched. It is recovery.guard of the configuration.
type Mode string

// The modes. An unknown mode is treated as Scripts.
const (
	// Scripts watches the parts of files that run code or say where code comes from: scripts, plugins, registries, and
	// dependencies that do not come from a registry.
	Scripts Mode = "scripts"
	Strict  Mode = "strict" // watches every input whole: one changed byte is a change
	Off     Mode = "off"    // watches nothing
)

// Query describes the command whose inputs are wanted.
type Query struct {
	WorkingDir string // the directory in which the command runs, relative to the repository; "" is "."
	// Commands are the simple commands that the command consists of, in the order in which they are written, each as
	// its words after quote removal. A part of a word that only the shell can expand is Unknown.
	Commands [][]string
	Mode     Mode
	// Repo is the absolute path of the repository, or "". With it, words that are absolute paths below the repository
	// count as files of the repository.
	Repo    string
	Outside Outside // where programs and their settings lie outside of the repository
}

// Unknown stands in a word for text that only the shell can expand.
const Unknown = "..."

// Input is a file, or a part of a file, that a command reads.
type Input struct {
	Path string `json:"path"`           // relative to the repository, with slashes; "/~/..." is below the home directory
	Part string `json:"part,omitempty"` // the part of the file, such as scripts.postinstall; "" is the whole file
	For  string `json:"for"`            // the program that reads the file
	Sum  string `json:"sum"`            // the SHA-256, in hex, of Text
	// Text is the content of the part, normalized so that it changes only with its meaning. Text is nil where only the
	// digest is known. It may hold secrets (.npmrc); Compare masks them.
	Text []byte `json:"-"`

	lost string // why the file cannot be watched
}

// Inputs finds the files of t that the command of q reads, sorted by path and part. It executes nothing. A file that
// cannot be watched (see the bounds in the package comment) is in the list, too, and always makes a Change. Inputs
// returns an error only if the working directory is outside of the repository.
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
		seen: map[string]int{}, members: map[key][]string{}, outer: map[string]known{}, steps: maxSteps, entries: maxEntries, bytes: maxBytes}
	r.sequence([]string{dir}, q.Commands, 0)
	return r, nil
}

// Digest returns the SHA-256, in hex, over the inputs in their order: equal digests mean equal inputs. An approval is
// bound to this digest. superloop computes it again right before it executes the command.
func Digest(inputs []Input) string {
	h := sha256.New()
	for _, in := range inputs {
		fmt.Fprintf(h, "%d:%s%d:%s%s%d:%s\n", len(in.Path), in.Path, len(in.Part), in.Part, in.Sum, len(in.lost), in.lost)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Report is the result of Check.
type Report struct {
	Changes []Change // empty if every input equals the baseline
	Digest  string   // the Digest of the inputs in the work tree
}

// Check compares the inputs of a command with a baseline. It knows more than Inputs of the baseline alone: if the
// baseline holds only the digest of a file, and the file in the work tree still has this digest, Check uses its content
// from the work tree.
func Check(base *Baseline, now *WorkTree, q Query) (Report, error) {
	before, err := Inputs(borrowed{base, now}, q)
	if err != nil {
		return Report{}, err
	}
	after, err := Inputs(now, q)
	if err != nil {
		return Report{}, err
	}
	return Report{slices.DeleteFunc(Compare(before, after), base.accepts), Digest(after)}, nil
}

// borrowed is a baseline that reads content which it did not store from the work tree, if the file there is unchanged.
type borrowed struct {
	*Baseline
	now *WorkTree
}

func (b borrowed) read(name string) (content, error) {
	c, err := b.Baseline.read(name)
	if err != nil || c.text != nil || c.sum == "" {
		return c, err
	}
	if n, err := b.now.read(name); err == nil {
		if n.name(); n.sum == c.sum && n.text != nil {
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
