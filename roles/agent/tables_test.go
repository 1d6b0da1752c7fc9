package agent

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/superloop/superloop/roles/agent/class"
)

// calls gives the string literals that are the first argument of calls of one of
// the names, by file.
func calls(t *testing.T, names ...string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			name := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING && slices.Contains(names, name) {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				found[file] = append(found[file], text)
			}
			return true
		})
	}
	return found
}

// Each path that a reader asks an event for is in the layout of its lines.
func TestEventPaths(t *testing.T) {
	t.Parallel()
	layouts := map[string][]*layout{
		"claude": {claudeLines(), claudeTranscript()}, "codex": {codexLines(), codexServed(), codexRollout()},
		"gemini": {geminiLines()}, "opencode": {opencodeLines()}, "acp": {acpLines()}, "pi": {piLines()},
	}
	n := 0
	for file, list := range calls(t, "want", "last", "str", "text", "int", "count", "float", "bool", "all", "counters", "message") {
		cli, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
		for _, path := range list {
			n++
			if !slices.ContainsFunc(layouts[cli], func(l *layout) bool { _, ok := l.wants[path]; return ok }) {
				t.Errorf("%s asks for %q, which is not read", file, path)
			}
		}
	}
	for _, path := range geminiMarks {
		if _, ok := geminiLines().wants[path]; !ok {
			t.Errorf("%q is not read", path)
		}
	}
	for _, name := range []string{"text", "command", "changes.*.path", "tool", "query"} {
		if _, ok := codexLines().wants["item."+name]; !ok {
			t.Errorf("%q is not read", name)
		}
		if _, ok := codexServed().wants["params.item."+name]; !ok {
			t.Errorf("%q is not read", name)
		}
	}
	if n < 100 {
		t.Errorf("only %d paths were found", n)
	}
}

// Each table of failures.txt is used, each that is used is there, and each line
// of it has a known class and an expression that compiles.
func TestFailureTables(t *testing.T) {
	t.Parallel()
	known := []class.Class{
		class.Limit, class.Overloaded, class.Network, class.Auth, class.Billing, class.Model, class.Context, class.Config,
		class.Turns, class.Budget, class.Refused, class.Request, class.Session, class.NoResult, class.Unknown,
	}
	for name, table := range failures() {
		for _, f := range table {
			if !slices.Contains(known, f.class) || len(f.text().String()) < 2 && name != "opencode.start" {
				t.Errorf("%s: %q %q", name, f.class, f.text())
			}
		}
	}
	used := map[string]bool{}
	for file, list := range calls(t, "classOf", "findClass", "startFailure") {
		for _, name := range list {
			used[name] = true
			if len(failures()[name]) == 0 {
				t.Errorf("%s: there is no table %q", file, name)
			}
		}
	}
	if len(used) != len(failures()) {
		t.Errorf("%d of %d tables are used", len(used), len(failures()))
	}
}
