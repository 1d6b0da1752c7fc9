package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// ownRights are the packages that start a program with superloop's own rights, and what for. Whatever an agent can have
// arranged must not steer it.
var ownRights = map[string]string{
	"internal/gitcmd":                 "git, in a view of the repository that no agent can write",
	"recovery/provides":               "questions to package managers by a plain name, in / and with an empty environment: no file of the repository is read",
	"recovery/undo":                   "cp, ln, rm and find, in its own directories and on paths that a handle holds; git's facts and blobs",
	"loop/carry":                      "git's facts about the work tree of a loop, and its objects; fetch and push with the operator's rights, to an address that an operator has signed",
	"loop/worktree":                   "git's facts about a work tree, and superloop's commits",
	"loop/config":                     "bash -n, which reads the text of a command and runs nothing",
	"cmd/superloop":                   "git init in a scratch directory of doctor --runner",
	"cmd/superloop/internal/doctor":   "git's version and facts",
	"cmd/superloop/internal/demo":     "git and sh in the directory of the demo, before an agent runs",
	"cmd/superloop/internal/selftest": "git init and rm in the directory of doctor --live",
}

// startsGit says where the file starts git by its name.
func startsGit(fset *token.FileSet, f *ast.File, pkg string) (problems []string) {
	if pkg == "internal/gitcmd" {
		return nil
	}
	word := func(list []ast.Expr, i int) string {
		if i < len(list) {
			if l, ok := list[i].(*ast.BasicLit); ok && l.Kind == token.STRING {
				return l.Value
			}
		}
		return ""
	}
	verbs := strings.Fields("-c -C add apply checkout commit config diff init log ls-files reset rev-parse rm show status switch worktree")
	starts := []string{"Run", "System", "Trusted", "Start", "Command", "CommandContext"}
	ast.Inspect(f, func(n ast.Node) bool {
		bad := false
		switch n := n.(type) {
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			for i := range n.Args {
				bad = bad || ok && slices.Contains(starts, sel.Sel.Name) && word(n.Args, i) == `"git"`
			}
		case *ast.CompositeLit:
			bad = word(n.Elts, 0) == `"git"` && slices.Contains(verbs, strings.Trim(word(n.Elts, 1), "\""))
		}
		if bad {
			problems = append(problems, fmt.Sprintf("%s: only internal/gitcmd starts git: anywhere else an agent's configuration, hook or filter runs with superloop's rights", fset.Position(n.Pos())))
		}
		return true
	})
	return problems
}

// TestOwnRightsAreAList: who starts a program with superloop's own rights is known, with the reason, and nobody is listed
// who does not. go test -v prints the list.
func TestOwnRightsAreAList(t *testing.T) {
	files := sources(t)
	callers := map[string]bool{}
	for rel, src := range files {
		f, err := parser.ParseFile(token.NewFileSet(), rel, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		names := importNames(f)
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				id, is := sel.X.(*ast.Ident)
				switch {
				case !is:
				case names[id.Name] == module+"/internal/gitcmd" && slices.Contains([]string{"Open", "Scratch", "Version"}, sel.Sel.Name),
					names[id.Name] == module+"/internal/proc" && slices.Contains([]string{"System", "Trusted"}, sel.Sel.Name):
					callers[path.Dir(rel)] = true
				}
			}
			return true
		})
	}
	for _, pkg := range slices.Sorted(maps.Keys(callers)) {
		if ownRights[pkg] == "" {
			t.Errorf("%s starts a program with superloop's own rights: say in ownRights of internal/archtest why nothing that an agent can write steers it", pkg)
		}
		t.Logf("%-34s %s", pkg, ownRights[pkg])
	}
	for pkg := range ownRights {
		if !callers[pkg] {
			t.Errorf("%s is in ownRights of internal/archtest and starts nothing (any more): remove it there", pkg)
		}
	}
}
