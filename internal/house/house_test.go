package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/superloop/superloop"

// rooms says which of our packages a package may import. A pattern ending in
// /... covers the package and everything below it. A package that is not
// listed fails the test: add it here and in docs/architecture.md.
var rooms = map[string][]string{
	"schemas":                           {},
	"internal/durable":                  {},
	"internal/proc":                     {},
	"internal/redact":                   {},
	"internal/house":                    {},
	"internal/jsonstream":               {},
	"internal/text":                     {},
	"bench":                             {},
	"recovery":                          {"recovery/action", "schemas", "internal/..."},
	"recovery/action":                   {},
	"recovery/cage":                     {"internal/..."},
	"recovery/guard":                    {"internal/...", "schemas"},
	"recovery/undo":                     {"internal/...", "schemas"},
	"recovery/catalog":                  {"schemas", "internal/..."},
	"recovery/classify":                 {"recovery", "recovery/catalog", "schemas", "internal/..."},
	"recovery/remedy":                   {"recovery", "recovery/action", "recovery/catalog", "recovery/classify", "recovery/chain", "schemas", "internal/..."},
	"recovery/chain":                    {"recovery/action", "internal/text"},
	"recovery/chain/walk":               {"recovery/action", "recovery/chain", "schemas", "internal/..."},
	"recovery/classify/internal/record": {"internal/..."},
	"recovery/learn":                    {"internal/..."},
	"recovery/respond":                  {},
	"recovery/preflight":                {"recovery/classify", "recovery/respond", "internal/..."},
	"recovery/verify":                   {"recovery/catalog", "recovery/classify", "recovery", "schemas", "internal/..."},
	"internal/dirwatch":                 {},
	"internal/multiscan":                {},
	"roles":                             {"schemas"},
	"roles/agent":                       {"roles", "roles/agent/class", "internal/..."},
	"roles/agent/class":                 {},
	"roles/agent/...":                   {"roles", "roles/agent", "roles/agent/class", "internal/..."},
	"escalation":                        {"recovery", "recovery/action", "schemas", "internal/..."},
	"escalation/notify":                 {"escalation", "internal/..."},
	"escalation/slack":                  {"escalation", "escalation/notify", "internal/..."},
	"loop/config":                       {"schemas", "recovery", "roles", "escalation/notify", "internal/..."},
	"loop/config/trust":                 {"loop/config", "schemas", "internal/..."},
	"loop/config/watch":                 {"loop/config", "loop/config/trust", "schemas", "internal/..."},
	"loop/journal":                      {"schemas", "internal/..."},
	"loop/gate":                         {"internal/..."},
	"loop/stats":                        {"schemas", "internal/...", "loop/journal", "recovery/respond"},
	"loop/worktree":                     {"internal/..."},
	"loop/layout":                       {"escalation"},
	"loop/control":                      {"loop/layout", "internal/..."},
	"loop":                              {"recovery/action", "recovery/chain", "recovery/respond", "roles/agent/class", "internal/text"},
	"loop/local":                        {"loop", "schemas", "internal/...", "recovery/...", "roles/...", "escalation", "escalation/notify", "loop/..."},
	"cmd/...":                           {"schemas", "internal/...", "recovery/...", "roles/...", "escalation/...", "loop/...", "cmd/..."},
}

// only says which package alone may import a library, and why.
var only = map[string]struct{ rooms, why string }{
	"os/exec":                   {"internal/proc", "a process that is not started by internal/proc is not ended by it either"},
	"github.com/urfave/cli/v2":  {"cmd/...", "flags are the command line's business"},
	"github.com/slack-go/slack": {"escalation/slack", "one room knows Slack, so that a move costs a day"},
	"github.com/prometheus/client_golang/prometheus":          {"cmd/...", "figures come from the journal; no other room counts"},
	"github.com/prometheus/client_golang/prometheus/promhttp": {"cmd/...", "one verb serves figures"},
	"github.com/santhosh-tekuri/jsonschema/v5":                {"schemas", "one room knows the schema library"},
	"os/signal": {"cmd/..., internal/proc, roles/agent/script", "signals are taken in main (and by the spawner and the scripted agent, which are mains of their own)"},
}

const onlyDurable = "only internal/durable writes (it syncs, and faults are injected there); the scripted agent stands in for a foreign program"

// calls says which functions only some packages, and besides them some files,
// may call, and why.
var calls = []struct{ pkg, names, rooms, files, why string }{
	{"os", "WriteFile Create OpenFile CreateTemp Rename MkdirAll MkdirTemp RemoveAll Link Symlink Truncate Chmod Chtimes",
		"internal/durable, roles/agent/script", "", onlyDurable},
	{"os", "Mkdir Remove", "internal/durable, roles/agent/script", "internal/proc/cgroup*.go",
		onlyDurable + "; a cgroup is made and removed as a directory, but it is a control file of the kernel and never on a disk"},
	{"os", "Exit", "cmd/...", "recovery/cage/early.go recovery/classify/internal/record/main.go", "only main ends the process; and the shim, and the recorder of real failures, which are mains of their own"},
	{"log", "Fatal Fatalf Fatalln Panic Panicf", "", "", "libraries return errors"},
	{"time", "Sleep", "roles/agent/script", "", "wait for the thing itself"},
}

// pureFiles have no clock: time arrives in the input.
var pureFiles = []string{"loop/step*.go", "loop/state.go", "loop/effect.go", "loop/input*.go", "loop/view.go", "loop/line.go", "loop/replay.go", "recovery/decide*.go", "recovery/action/*.go",
	"recovery/chain/*.go", "recovery/respond/*.go"}

var badNames = []string{"util", "utils", "common", "types", "helpers", "constants"}

func matches(room, list string) bool {
	for _, p := range strings.Split(list, ",") {
		p = strings.TrimSpace(p)
		if room == p || (strings.HasSuffix(p, "/...") && (room == strings.TrimSuffix(p, "/...") || strings.HasPrefix(room, strings.TrimSuffix(p, "...")))) {
			return true
		}
	}
	return false
}

func allowed(room string) ([]string, bool) {
	if list, ok := rooms[room]; ok {
		return list, true
	}
	for p, list := range rooms {
		if strings.HasSuffix(p, "/...") && matches(room, p) {
			return list, true
		}
	}
	return nil, false
}

// sources gives every Go file of the module that is no test, by its path from
// the root.
func sources(t *testing.T) map[string][]byte {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	err = filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") && file != root || e.Name() == "testdata") {
			return fs.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files were found; is the root right?", len(files))
	}
	return files
}

func TestRulesOfTheHouse(t *testing.T) {
	files := sources(t)
	for _, rel := range slices.Sorted(maps.Keys(files)) {
		for _, problem := range check(rel, files[rel]) {
			t.Error(problem)
		}
	}
}

// TestEveryPackageSaysWhatItIs: go doc shows a sentence for each package.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for rel, src := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), rel, src, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Error(err)
			continue
		}
		room := path.Dir(rel)
		begin := "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			begin = "Command " + path.Base(room) + " "
		}
		said[room] = said[room] || f.Doc != nil && strings.HasPrefix(f.Doc.Text(), begin)
	}
	for room, ok := range said {
		if !ok {
			t.Errorf("%s has no package comment (\"// Package ... \", or \"// Command ...\" for a main)", room)
		}
	}
}

// TestCommandsOfTheReadme: the two commands of README.md are what a newcomer
// types first, so they may not change unnoticed, and .ci/run runs them.
func TestCommandsOfTheReadme(t *testing.T) {
	for _, file := range []string{"README.md", ".ci/run"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for _, command := range []string{"go run ./cmd/superloop demo", "go test ./..."} {
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, command) }) {
				t.Errorf("%s does not hold the command %q", file, command)
			}
		}
	}
}

// TestRulesFindViolations breaks each rule once.
func TestRulesFindViolations(t *testing.T) {
	for name, c := range map[string]struct{ rel, src, want string }{
		"unknown room":       {"attic/a.go", "package attic", "not in the table of rooms"},
		"empty name":         {"loop/util/a.go", "package util", "says nothing"},
		"upward import":      {"roles/a.go", "package roles\nimport _ \"" + module + "/loop\"", "roles may import"},
		"someone's library":  {"loop/a.go", "package loop\nimport _ \"os/exec\"", "which only internal/proc may"},
		"write":              {"loop/a.go", "package loop\nimport \"os\"\nvar f = os.WriteFile", "only internal/durable writes"},
		"renamed import":     {"loop/a.go", "package loop\nimport sys \"os\"\nvar f = sys.Rename", "only internal/durable writes"},
		"open for writing":   {"loop/a.go", "package loop\nimport \"os\"\nvar f, _ = os.OpenFile(\"x\", os.O_WRONLY, 0)", "os.OpenFile"},
		"mkdir outside":      {"internal/proc/run.go", "package proc\nimport \"os\"\nvar f = os.Mkdir", "control file of the kernel"},
		"clock":              {"loop/step_x.go", "package loop\nimport \"time\"\nvar t = time.Now()", "the machine has no clock"},
		"init":               {"loop/a.go", "package loop\nfunc init() {}", "no init()"},
		"sleep":              {"loop/a.go", "package loop\nimport \"time\"\nvar f = time.Sleep", "wait for the thing itself"},
		"exit":               {"loop/a.go", "package loop\nimport \"os\"\nvar f = os.Exit", "only main ends the process"},
		"timed test":         {"loop/a_test.go", "package loop\nimport \"time\"\nfunc TestA(t *testing.T) { if took := time.Since(x); took > time.Second { t.Fail() } }", "when the machine is busy"},
		"fine: at least":     {"loop/a_test.go", "package loop\nimport \"time\"\nfunc TestA(t *testing.T) { if time.Since(x) < time.Second { t.Fail() } }", ""},
		"fine: bubble":       {"loop/a_test.go", "package loop\nimport \"time\"\nfunc TestA(t *testing.T) { synctest.Test(t, func() { if time.Since(x) > 1 { t.Fail() } }) }", ""},
		"long":               {"loop/a.go", "package loop\n" + strings.Repeat("\n", 400), "401 lines"},
		"fine: read":         {"loop/a.go", "package loop\nimport \"os\"\nvar f, _ = os.OpenFile(\"x\", os.O_RDONLY, 0)", ""},
		"fine: cgroup":       {"internal/proc/cgroup_linux.go", "package proc\nimport \"os\"\nvar f = os.Mkdir", ""},
		"fine: agent signal": {"roles/agent/script/a.go", "package script\nimport _ \"os/signal\"", ""},
	} {
		got := strings.Join(check(c.rel, []byte(c.src)), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// readOnly reports whether call is an open whose flags say O_RDONLY and nothing
// that writes.
func readOnly(call *ast.CallExpr) bool {
	if len(call.Args) != 3 {
		return false
	}
	read, write := false, false
	ast.Inspect(call.Args[1], func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			read = read || id.Name == "O_RDONLY"
			write = write || slices.Contains([]string{"O_WRONLY", "O_RDWR", "O_CREATE", "O_TRUNC", "O_APPEND"}, id.Name)
		}
		return true
	})
	return read && !write
}

// check says which rules the file breaks.
func check(rel string, src []byte) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, rel, src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	room := path.Dir(rel)
	may, known := allowed(room)
	if !known {
		say("%s: package %s is not in the table of rooms; add it here and to docs/architecture.md", rel, room)
	}
	if slices.Contains(badNames, f.Name.Name) {
		say("%s: package %s says nothing about what is in it", rel, f.Name.Name)
	}
	names := map[string]string{} // local name of an import -> path
	for _, im := range f.Imports {
		p := strings.Trim(im.Path.Value, `"`)
		name := path.Base(p)
		if im.Name != nil {
			name = im.Name.Name
		}
		names[name] = p
		if rule, ok := only[p]; ok && !matches(room, rule.rooms) {
			say("%s imports %s, which only %s may: %s", rel, p, rule.rooms, rule.why)
		}
		ours, ok := strings.CutPrefix(p, module+"/")
		if !ok {
			continue
		}
		if !matches(ours, strings.Join(may, ",")) {
			say("%s imports %s; %s may import %v", rel, ours, room, may)
		}
	}
	pure := anyMatch(pureFiles, rel)
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "init" && fn.Recv == nil {
			say("%s: no init(): work at start-up costs every command", rel)
		}
	}
	reads := map[ast.Node]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && readOnly(call) {
			reads[call.Fun] = true
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || reads[n] {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		pkg := names[id.Name]
		if pure && pkg == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "NewTimer", "Tick"}, sel.Sel.Name) {
			say("%s: time.%s: the machine has no clock, time arrives in its input", fset.Position(n.Pos()), sel.Sel.Name)
		}
		for _, c := range calls {
			if pkg == c.pkg && slices.Contains(strings.Fields(c.names), sel.Sel.Name) && !matches(room, c.rooms) && !anyMatch(strings.Fields(c.files), rel) {
				say("%s: %s.%s is for %q only: %s", fset.Position(n.Pos()), c.pkg, sel.Sel.Name, strings.TrimSpace(c.rooms+" "+c.files), c.why)
			}
		}
		return true
	})
	if strings.HasSuffix(rel, "_test.go") {
		for _, at := range timed(f, names) {
			say("%s: a test that fails when the machine is busy: leave time limits to go test, look for the thing itself, or put it into a bubble of synctest; speed is for benchmarks", fset.Position(at))
		}
	}
	if lines := fset.File(f.Pos()).LineCount(); lines > 400 {
		say("%s has %d lines; a file is about one thing, split it (400 is the bound)", rel, lines)
	}
	return problems
}

// timed are the places where a test holds the clock against an upper bound, outside
// of a bubble of synctest.
func timed(f *ast.File, names map[string]string) (places []token.Pos) {
	elapsed := func(e ast.Node, of map[string]bool) (yes bool) {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				yes = yes || of[n.Name]
			case *ast.SelectorExpr:
				id, ok := n.X.(*ast.Ident)
				yes = yes || ok && names[id.Name] == "time" && n.Sel.Name == "Since"
				return !ok
			}
			return true
		})
		return yes
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
			continue
		}
		var here []token.Pos
		bubble, took := false, map[string]bool{}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				bubble = bubble || n.Name == "synctest" || n.Name == "bubble"
			case *ast.AssignStmt:
				for i, r := range n.Rhs {
					if id, ok := n.Lhs[i].(*ast.Ident); ok && elapsed(r, nil) {
						took[id.Name] = true
					}
				}
			case *ast.BinaryExpr:
				if n.Op == token.GTR && elapsed(n.X, took) || n.Op == token.LSS && elapsed(n.Y, took) {
					here = append(here, n.Pos())
				}
			}
			return true
		})
		if !bubble {
			places = append(places, here...)
		}
	}
	return places
}

func anyMatch(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok })
}
