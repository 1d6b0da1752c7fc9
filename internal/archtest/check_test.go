package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

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

// importsOf are the paths that the file imports.
func importsOf(t *testing.T, rel string, src []byte) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), rel, src, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	return importPaths(f)
}

func importPaths(f *ast.File) (paths []string) {
	for _, im := range f.Imports {
		paths = append(paths, strings.Trim(im.Path.Value, `"`))
	}
	return paths
}

// importNames gives the path of each import by the name that the file has for it.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, im := range f.Imports {
		p := strings.Trim(im.Path.Value, `"`)
		name := path.Base(p)
		if im.Name != nil {
			name = im.Name.Name
		}
		names[name] = p
	}
	return names
}

// check says which rules the file breaks; rows is the table of packages.
func check(rows map[string]row, rel string, src []byte) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, rel, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return []string{err.Error()}
	}
	pkg := path.Dir(rel)
	may, known := rows[pkg]
	if !known {
		say("%s: package %s is not in the table of %s; add a row", rel, pkg, tableFile)
	}
	if slices.Contains(badNames, f.Name.Name) {
		say("%s: package %s says nothing about what is in it", rel, f.Name.Name)
	}
	names := importNames(f)
	for _, p := range importPaths(f) {
		if rule, ok := only[p]; ok && !matches(pkg, rule.packages) {
			say("%s imports %s, which only %s may: %s", rel, p, rule.packages, rule.why)
		}
		ours, ok := strings.CutPrefix(p, module+"/")
		if ok && !may.allows(ours) {
			say("%s imports %s; %s may import %v (the table of %s): let the caller hand it over, or change the row and say why", rel, ours, pkg, may, tableFile)
		}
	}
	problems = append(problems, checkWorld(rel, importPaths(f))...)
	problems = append(problems, waivers(fset, f)...)
	problems = append(problems, startsGit(fset, f, pkg)...)
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
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		from, name := names[id.Name], sel.Sel.Name
		if reads[n] {
			name += ":read"
		}
		if pure && from == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "NewTimer", "Tick"}, sel.Sel.Name) {
			say("%s: time.%s: the machine has no clock, time arrives in its input", fset.Position(n.Pos()), sel.Sel.Name)
		}
		for _, c := range calls {
			if from == c.pkg && slices.Contains(strings.Fields(c.names), name) && !matches(pkg, c.packages) && !anyMatch(strings.Fields(c.files), rel) {
				say("%s: %s.%s is for %q only: %s", fset.Position(n.Pos()), c.pkg, sel.Sel.Name, strings.TrimSpace(c.packages+" "+c.files), c.why)
			}
		}
		return true
	})
	if !matches(pkg, "internal/text, internal/tools/..., internal/testkit/...") {
		for _, at := range wordy(f, names) {
			say("%s: the error of encoding/json repeats what it read, however long: text.Decode, or text.Reason around a Decoder's", fset.Position(at))
		}
	}
	if lines := fset.File(f.Pos()).LineCount(); lines > 400 {
		say("%s has %d lines; a file is about one thing, split it (400 is the bound)", rel, lines)
	}
	return problems
}

// wordy are the decodings of JSON whose error somebody could show: it is not dropped, only compared with nil, or cut to a
// line.
func wordy(f *ast.File, names map[string]string) (places []token.Pos) {
	is := func(e ast.Node, pkg, name string) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != name {
			return false
		}
		id, ok := sel.X.(*ast.Ident)
		return ok && names[id.Name] == pkg
	}
	quiet, decoder := map[ast.Node]bool{}, false
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if id, ok := n.Lhs[0].(*ast.Ident); ok && id.Name == "_" {
				quiet[n.Rhs[0]] = true
			}
		case *ast.BinaryExpr:
			if id, ok := n.Y.(*ast.Ident); ok && id.Name == "nil" {
				quiet[n.X] = true
			}
		case *ast.CallExpr:
			decoder = decoder || is(n.Fun, "encoding/json", "NewDecoder")
			if len(n.Args) == 1 && is(n.Fun, module+"/internal/text", "Reason") {
				quiet[n.Args[0]] = true
			}
		}
		return true
	})
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || quiet[n] {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if is(call.Fun, "encoding/json", "Unmarshal") ||
			ok && decoder && sel.Sel.Name == "Decode" && !is(sel, module+"/internal/text", "Decode") {
			places = append(places, n.Pos())
		}
		return true
	})
	return places
}

// checkTest says which rules a file of tests breaks.
func checkTest(rel string, src []byte) (problems []string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, rel, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return []string{err.Error()}
	}
	for _, at := range timed(f, importNames(f)) {
		problems = append(problems, fmt.Sprintf("%s: a test that fails when the machine is busy: leave time limits to go test, look for the thing itself, or put it into a bubble of synctest; speed is for benchmarks", fset.Position(at)))
	}
	for _, at := range shared(f, importNames(f)) {
		problems = append(problems, fmt.Sprintf("%s: parallel tests that share a generator of rapid race for its name; let a function make it", fset.Position(at)))
	}
	if strings.Contains(string(src), "env(\"SUPERLOOP_SLOW_TESTS\")") {
		problems = append(problems, rel+": ask testkit.Sample how much of a long test runs; .ci/run finds the long tests by it")
	}
	return append(problems, waivers(fset, f)...)
}

// waivers are the comments that want to switch a rule off.
func waivers(fset *token.FileSet, f *ast.File) (problems []string) {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(strings.TrimLeft(c.Text, "/* \t"), "archtest:") {
				problems = append(problems, fmt.Sprintf("%s: a comment waives no rule, since nobody would read the list of waivers: an exception is a line in internal/archtest, next to its reason", fset.Position(c.Pos())))
			}
		}
	}
	return problems
}

// shared are the generators of rapid that variables of the package hold.
func shared(f *ast.File, names map[string]string) (places []token.Pos) {
	for _, d := range f.Decls {
		if vars, ok := d.(*ast.GenDecl); !ok || vars.Tok != token.VAR {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
					if id, ok := sel.X.(*ast.Ident); ok && names[id.Name] == "pgregory.net/rapid" {
						places = append(places, n.Pos())
						return false
					}
				}
			}
			_, function := n.(*ast.FuncLit)
			return !function
		})
	}
	return places
}

// timed are the places where a test holds the clock against an upper bound, outside
// of a bubble of synctest.
func timed(f *ast.File, names map[string]string) (places []token.Pos) {
	elapsed := func(e ast.Node, of map[string]bool) (yes bool) {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				yes = yes || of[n.Name] || n.Name == "threadTime"
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
					if id, ok := n.Lhs[i].(*ast.Ident); ok && elapsed(r, took) {
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

// matches reports whether one of the patterns, separated by commas, covers the
// package: its path, or a path that ends in /... and covers all below it, too.
func matches(pkg, list string) bool {
	for _, p := range strings.Split(list, ",") {
		p = strings.TrimSpace(p)
		if pkg == p || (strings.HasSuffix(p, "/...") && (pkg == strings.TrimSuffix(p, "/...") || strings.HasPrefix(pkg, strings.TrimSuffix(p, "...")))) {
			return true
		}
	}
	return false
}

func anyMatch(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok })
}
