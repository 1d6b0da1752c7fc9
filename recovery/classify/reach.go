package classify

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// An error may be worded in a file that no trace names: in a module, in a table of messages, in the answers that a test
// has for a double. The code that the trace names leads there.

const (
	maxSiblings = 16 // files that are read beside one that the output names
	maxReached  = 20 // files that are read for one failure
	maxTokens   = 40 // names of files in one file that are looked for
)

var (
	// namedFile matches a string of the code that may be the path of a file or the name of a module.
	namedFile = pattern.Lazy(`["'` + "`" + `](?:\$\w+|\$\{\w+\})?([\w@./\\-]*\w)(?::\$[^"']*)?["'` + "`" + `]`)
	// namedModule matches a statement that names a module or a file without quotes.
	namedModule = pattern.Lazy(`(?:^|[;{])\s*(?:from|import|use|mod|pub mod|source|\.)\s+([\w./:]+)(?:\s+import\s+(\w+))?`)
)

// reach returns files of the project and the files that they name, in turn, and lets siblings follow: what lies beside a
// file, and in src, is code of the same language that needs no name.
func (j *judgement) reach(files []string) []string {
	out := slices.Clone(files)
	add := func(file string) {
		if len(out) < maxReached && !slices.Contains(out, file) {
			out = append(out, file)
		}
	}
	for i := 0; i < len(out); i++ {
		for _, name := range j.namedIn(out[i]) {
			add(name)
		}
	}
	for _, file := range slices.Clone(out) {
		for _, dir := range []string{filepath.Dir(file), "src"} {
			for _, name := range j.beside(dir, ending(file)) {
				add(name)
			}
		}
	}
	return out
}

// ending returns the ending of the modules of a file's language.
func ending(file string) string {
	ext := filepath.Ext(file)
	switch ext {
	case ".t", ".pl":
		return ".pm"
	case ".exs":
		return ".ex"
	}
	return ext
}

// beside returns the files of a directory that end with ext, or all if it is "".
func (j *judgement) beside(dir, ext string) (out []string) {
	if !filepath.IsLocal(dir) || foreign(dir) {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(j.in.Dir, dir)) // what cannot be listed words nothing
	for _, e := range entries[:min(len(entries), maxSiblings)] {
		if (ext == "" || filepath.Ext(e.Name()) == ext) && e.Type().IsRegular() {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// namedIn returns the files of the project that a file names.
func (j *judgement) namedIn(file string) (out []string) {
	left := maxTokens
	look := func(name string) {
		if left--; left >= 0 {
			out = append(out, j.module(file, name)...)
		}
	}
	for _, l := range j.readLines(file) {
		for _, m := range namedModule().FindAllStringSubmatch(l, 4) {
			look(m[1])
			if m[2] != "" {
				look(m[1] + "." + m[2])
			}
		}
		for _, m := range namedFile().FindAllStringSubmatch(l, 4) {
			if strings.ContainsAny(m[1], "./") {
				look(m[1])
			}
		}
	}
	return out
}

// module returns the files of the project that a name in a file may stand for: the file of a path with or without its
// ending, that of a module whose parts are joined by "." or "::", or those of a directory or of a package of Go.
func (j *judgement) module(file, name string) []string {
	ext := ending(file)
	if ext == ".go" {
		for rest, ok := name, true; ok; _, rest, ok = strings.Cut(rest, "/") {
			if all := j.beside(rest, ext); strings.Contains(name, "/") && len(all) > 0 {
				return slices.DeleteFunc(all, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
			}
		}
	}
	path := strings.TrimLeft(name, "/")
	parts := strings.Trim(strings.NewReplacer("::", "/", ".", "/").Replace(name), "/")
	for _, dir := range []string{filepath.Dir(file), ".", "src", "lib"} {
		for _, as := range []string{path, path + ext, parts + ext, parts + "/__init__" + ext, path + "/index" + ext, strings.TrimSuffix(path, filepath.Ext(path)) + ext} {
			if at := filepath.Join(dir, as); at != file && filepath.Ext(at) != "" && j.exists(at) {
				return []string{at}
			}
		}
	}
	if at := filepath.Join(filepath.Dir(file), path); strings.Contains(path, "/") || strings.HasPrefix(name, "/") { // of programs that a test plays
		return j.beside(at, "")
	}
	return nil
}
