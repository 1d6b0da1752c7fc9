package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
	"schemas":           {},
	"internal/durable":  {},
	"internal/proc":     {},
	"internal/redact":   {},
	"internal/house":    {},
	"recovery":          {"schemas", "internal/..."},
	"roles":             {"schemas"},
	"roles/agent":       {"roles", "internal/..."},
	"roles/agent/...":   {"roles", "roles/agent", "internal/..."},
	"escalation":        {"recovery", "schemas", "internal/..."},
	"escalation/notify": {"escalation", "internal/..."},
	"escalation/slack":  {"escalation", "escalation/notify", "internal/..."},
	"loop/config":       {"schemas", "recovery", "roles", "escalation/notify", "internal/..."},
	"loop/journal":      {"schemas", "internal/..."},
	"loop/gate":         {"internal/..."},
	"loop/worktree":     {"internal/..."},
	"loop":              {"schemas", "internal/...", "recovery/...", "roles/...", "escalation", "escalation/notify", "loop/..."},
	"cmd/...":           {"schemas", "internal/...", "recovery/...", "roles/...", "escalation/...", "loop/...", "cmd/..."},
}

// only says which package alone may import a library, and why.
var only = map[string]struct{ rooms, why string }{
	"os/exec":                                  {"internal/proc", "a process that is not started by internal/proc is not ended by it either"},
	"github.com/urfave/cli/v2":                 {"cmd/...", "flags are the command line's business"},
	"github.com/slack-go/slack":                {"escalation/slack", "one room knows Slack, so that a move costs a day"},
	"github.com/santhosh-tekuri/jsonschema/v5": {"schemas", "one room knows the schema library"},
	"os/signal":                                {"cmd/..., internal/proc", "signals are taken in main (and by the spawner, which is a main of its own)"},
}

// calls says which functions only some packages may call, and why.
var calls = []struct{ pkg, names, rooms, why string }{
	{"os", "WriteFile Create OpenFile CreateTemp Rename Mkdir MkdirAll MkdirTemp Remove RemoveAll Link Symlink Truncate Chmod Chtimes",
		"internal/durable, roles/agent/script",
		"only internal/durable writes (it syncs, and faults are injected there); the scripted agent stands in for a foreign program"},
	{"os", "Exit", "cmd/...", "only main ends the process"},
	{"log", "Fatal Fatalf Fatalln Panic Panicf", "", "libraries return errors"},
	{"time", "Sleep", "roles/agent/script", "wait for the thing itself"},
}

// pureFiles have no clock: time arrives in the input.
var pureFiles = []string{"loop/step*.go", "loop/state.go", "loop/effect.go", "loop/input.go", "loop/plan.go", "loop/replay.go", "recovery/decide*.go"}

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

func TestRulesOfTheHouse(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") && file != root || e.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, _ := filepath.Rel(root, file)
		files++
		check(t, filepath.ToSlash(rel), file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files were looked at; is the root right?", files)
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

func check(t *testing.T, rel, file string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Errorf("%s: %v", rel, err)
		return
	}
	room := path.Dir(rel)
	may, known := allowed(room)
	if !known {
		t.Errorf("%s: package %s is not in the table of rooms; add it here and to docs/architecture.md", rel, room)
	}
	if slices.Contains(badNames, f.Name.Name) {
		t.Errorf("%s: package %s says nothing about what is in it", rel, f.Name.Name)
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
			t.Errorf("%s imports %s, which only %s may: %s", rel, p, rule.rooms, rule.why)
		}
		ours, ok := strings.CutPrefix(p, module+"/")
		if !ok {
			continue
		}
		if !matches(ours, strings.Join(may, ",")) {
			t.Errorf("%s imports %s; %s may import %v", rel, ours, room, may)
		}
	}
	pure := slices.ContainsFunc(pureFiles, func(p string) bool { ok, _ := path.Match(p, rel); return ok })
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "init" && fn.Recv == nil {
			t.Errorf("%s: no init(): work at start-up costs every command", rel)
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
			t.Errorf("%s: time.%s: the machine has no clock, time arrives in its input", fset.Position(n.Pos()), sel.Sel.Name)
		}
		for _, c := range calls {
			if pkg == c.pkg && slices.Contains(strings.Fields(c.names), sel.Sel.Name) && !matches(room, c.rooms) {
				t.Errorf("%s: %s.%s is for %q only: %s", fset.Position(n.Pos()), c.pkg, sel.Sel.Name, c.rooms, c.why)
			}
		}
		return true
	})
	if lines := fset.File(f.Pos()).LineCount(); lines > 400 {
		t.Errorf("%s has %d lines; a file is about one thing, split it (400 is the bound)", rel, lines)
	}
}
