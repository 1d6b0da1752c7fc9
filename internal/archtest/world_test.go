package archtest

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pureImports are the packages, besides ours, that the machine may import: they
// compute and touch nothing. What of ours it may import is in the table.
var pureImports = strings.Fields(`bytes cmp crypto/sha256 encoding/hex encoding/json errors fmt iter maps math regexp slices sort
	strconv strings time unicode unicode/utf8`)

// worldImports touch the world: files, the network, processes, the kernel.
var worldImports = []string{"os/...", "io/fs", "io/ioutil", "net/...", "syscall", "golang.org/x/sys/...", "github.com/fsnotify/fsnotify",
	module + "/internal/proc", module + "/internal/durable"}

// harmless lie below worldImports and only compute.
var harmless = []string{"net/url", "net/netip", "net/textproto", "net/mail"}

// touchesWorld are the packages below loop/ that may touch the world, with the
// reason. One that touches nothing any more fails the test until it has left the
// list.
var touchesWorld = map[string]string{
	"loop/local":            "the engine: it takes a loop up and holds its locks",
	"loop/effects":          "the performers: they carry out what the machine asks for",
	"loop/effects/failures": "it looks at the environment, and asks an agent",
	"loop/layout":           "where a loop's files lie depends on links and inodes",
	"loop/control":          "a wish is a file in the private directory",
	"loop/journal":          "events.jsonl is a file, appended and followed",
	"loop/config":           "config.json is a file, and the programs that it names are looked for",
	"loop/config/trust":     "the pin is a file outside of the repository",
	"loop/config/watch":     "it watches config.json",
	"loop/gate":             "gates read the work tree, through a directory handle",
	"loop/worktree":         "it reads work trees and runs git",
	"loop/carry":            "it brings files here, and runs git",
	"loop/space":            "it measures files and removes old ones",
}

// touches reports whether the package is a way to the world.
func touches(p string) bool {
	return matches(p, strings.Join(worldImports, ",")) && !slices.Contains(harmless, p)
}

// checkWorld says which import of the file the rules about the world forbid.
func checkWorld(rel string, imports []string) (problems []string) {
	dir := path.Dir(rel)
	switch {
	case dir == "loop":
		for _, p := range imports {
			if impure(p) {
				problems = append(problems, fmt.Sprintf("%s imports %s: package loop is the machine, which replays the same everywhere because it touches nothing; let the fact carry it, or do it in loop/effects (what the machine may import is pureImports in internal/archtest)", rel, p))
			}
		}
	case strings.HasPrefix(dir, "loop/") && touchesWorld[dir] == "":
		for _, p := range imports {
			if touches(p) {
				problems = append(problems, fmt.Sprintf("%s imports %s: of loop/..., only loop/local, loop/effects and a few leaves touch the world, so that the rest is tested without one; take what it needs as an argument, or give %s a line with its reason in touchesWorld of internal/archtest", rel, p, dir))
			}
		}
	}
	return problems
}

// impure reports whether the machine may not import p. Of ours, the table decides,
// but for the two packages that are the way to files and processes.
func impure(p string) bool {
	if p == module || strings.HasPrefix(p, module+"/") {
		return touches(p)
	}
	return !slices.Contains(pureImports, p)
}

// TestWorldListsShrink: an exception that nobody needs invites the next one.
func TestWorldListsShrink(t *testing.T) {
	files := sources(t)
	touching, there := map[string]bool{}, map[string]bool{}
	for rel := range files {
		imports := importsOf(t, rel, files[rel])
		there[path.Dir(rel)] = true
		if slices.ContainsFunc(imports, touches) {
			touching[path.Dir(rel)] = true
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(touchesWorld)) {
		if there[pkg] && !touching[pkg] {
			t.Errorf("%s is in touchesWorld of internal/archtest and touches nothing (any more): remove it there", pkg)
		}
	}
}

// TestOpensItselfShrinks: the same for the list of files that open something without internal/door.
func TestOpensItselfShrinks(t *testing.T) {
	files := sources(t)
	for _, rel := range opensItself {
		if !regexp.MustCompile(`\bos\.(Open|ReadFile|OpenFile|OpenRoot|DirFS)\(`).Match(files[rel]) {
			t.Errorf("%s is in opensItself of internal/archtest and opens nothing (any more): remove it there", rel)
		}
	}
}

// mostFiles is how many files without tests a package may have: more than that
// nobody holds in mind.
const mostFiles = 30

// overMostFiles are the packages that have more than mostFiles today, and what
// becomes of them. A package leaves the list when it has shrunk; none may join.
var overMostFiles = map[string]string{
	"cmd/superloop": "a file for each verb, which binds it; what a verb does belongs into a package below internal",
}

// checkSizes says which packages have too many files, and which names of the list
// are not needed; files counts the files of each package.
func checkSizes(files map[string]int, over map[string]string) (problems []string) {
	for _, pkg := range slices.Sorted(maps.Keys(files)) {
		if n := files[pkg]; n > mostFiles && over[pkg] == "" {
			problems = append(problems, fmt.Sprintf("package %s has %d files without tests; nobody holds more than %d in mind: split it by what it is about", pkg, n, mostFiles))
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(over)) {
		if n := files[pkg]; n <= mostFiles {
			problems = append(problems, fmt.Sprintf("package %s has %d files, at most %d, and is in overMostFiles of internal/archtest all the same: remove it there, so that it stays small", pkg, n, mostFiles))
		}
	}
	return problems
}

func TestPackagesStaySmall(t *testing.T) {
	count := map[string]int{}
	for rel := range sources(t) {
		count[path.Dir(rel)]++
	}
	for _, problem := range checkSizes(count, overMostFiles) {
		t.Error(problem)
	}
}

func TestSizesFindViolations(t *testing.T) {
	over := map[string]string{"big": "why"}
	for name, c := range map[string]struct {
		files map[string]int
		want  string
	}{
		"fine":       {map[string]int{"a": 30, "big": 31}, ""},
		"too many":   {map[string]int{"a": 31, "big": 31}, "package a has 31 files"},
		"has shrunk": {map[string]int{"big": 30}, "remove it there"},
		"is gone":    {map[string]int{}, "remove it there"},
	} {
		got := strings.Join(checkSizes(c.files, over), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// executes is what a replay may not reach by any import: what starts processes, and what leads to it.
var executes = []string{"os/exec", module + "/internal/proc", module + "/recovery/execute", module + "/recovery/sandbox", module + "/loop/effects/...", module + "/loop/local"}

// reaches returns the imports that lead from a package of ours to one that fits a pattern, or nil. imports holds what
// each of our packages imports.
func reaches(imports map[string][]string, from, pattern string) []string {
	for _, p := range imports[from] {
		if matches(p, pattern) {
			return []string{from, p}
		}
	}
	for _, p := range imports[from] {
		if own, ok := strings.CutPrefix(p, module+"/"); ok {
			if way := reaches(imports, own, pattern); way != nil {
				return append([]string{from}, way...)
			}
		}
	}
	return nil
}

// TestReplayExecutesNothing: replaying a journal cannot execute anything, because nothing that executes is linked.
func TestReplayExecutesNothing(t *testing.T) {
	imports := map[string][]string{}
	for rel, src := range sources(t) {
		imports[path.Dir(rel)] = append(imports[path.Dir(rel)], importsOf(t, rel, src)...)
	}
	if way := reaches(imports, "recovery/execute", module+"/internal/proc"); way == nil {
		t.Fatal("recovery/execute does not lead to internal/proc, so this test finds nothing")
	}
	if way := reaches(imports, "loop/replay", strings.Join(executes, ",")); way != nil {
		t.Errorf("a replay can execute: %s", strings.Join(way, " -> "))
	}
}
