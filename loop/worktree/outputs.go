package worktree

import (
	_ "embed"
	"path"
	"strings"
	"sync"
)

//go:embed outputs.txt
var outputsText string

// outputRules are the rules of outputs.txt.
type outputRules struct {
	skipDirs, skipFiles, skipExts, bulk map[string]bool // by name, or by extension: ".log" for "*.log"
	skipStarts                          []string
	below                               map[string]outputRules // by the name of the parent
}

// theOutputs returns the rules of outputs.txt. TestOutputs shows that each line of it is a rule.
var theOutputs = sync.OnceValue(func() outputRules { return parseOutputs(outputsText) })

func parseOutputs(text string) outputRules {
	all := outputRules{}
	for line := range strings.Lines(text) {
		what, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what != "skip" && what != "bulk" {
			continue
		}
		name, isDir := strings.CutSuffix(name, "/")
		parent, name := path.Split(name)
		parent = strings.TrimSuffix(parent, "/")
		r := all
		if parent != "" {
			r = all.below[parent]
		}
		switch ext, isExt := strings.CutPrefix(name, "*"); {
		case what == "bulk":
			r.bulk = with(r.bulk, name)
		case isDir:
			r.skipDirs = with(r.skipDirs, name)
		case strings.HasSuffix(name, "*"):
			r.skipStarts = append(r.skipStarts, strings.TrimSuffix(name, "*"))
		case isExt:
			r.skipExts = with(r.skipExts, ext)
		default:
			r.skipFiles = with(r.skipFiles, name)
		}
		if parent == "" {
			all = r
		} else if all.below == nil {
			all.below = map[string]outputRules{parent: r}
		} else {
			all.below[parent] = r
		}
	}
	return all
}

func with(set map[string]bool, name string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[name] = true
	return set
}

// dir says how the directory name below parent is looked at, if git tracks no file in it.
func (r outputRules) dir(parent, name string) (skip, bulk bool) {
	return r.skipDirs[name] || r.below[parent].skipDirs[name], r.bulk[name]
}

// file reports whether the file name below parent is not looked at, if git does not track it.
func (r outputRules) file(parent, name string) bool {
	ext := path.Ext(name)
	b := r.below[parent]
	for _, start := range r.skipStarts {
		if strings.HasPrefix(name, start) {
			return true
		}
	}
	return r.skipFiles[name] || ext != "" && (r.skipExts[ext] || b.skipExts[ext]) || b.skipFiles[name]
}

// hit reports whether the list ignores a path, if it ignores no directory above it.
func (l ignoreList) hit(rel string, dir bool) bool {
	hit := false
	if len(l) == 0 {
		return false
	}
	parts := strings.Split(rel, "/")
	for _, g := range l {
		if (dir || !g.dirOnly) && matchSegs(g.segs, parts) {
			hit = !g.negated
		}
	}
	return hit
}
