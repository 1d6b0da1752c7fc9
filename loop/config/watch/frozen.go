package watch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/schemas"
)

// frozen gives what a file changes although loops run on it: that they are
// there at all, and the files and directories that they stand on. data are the
// bytes that next was read from.
func frozen(live, next *config.Config, data []byte, running []string) []config.Problem {
	var problems []config.Problem
	wrong := func(pointer, format string, args ...any) {
		problems = append(problems, config.Problem{Pointer: pointer, Code: CodeRunning, Message: fmt.Sprintf(format, args...)})
	}
	where := map[bool]string{true: "a work tree of its own", false: "the repository itself"}
	for _, id := range running {
		was, ok := live.Loop(id)
		if !ok {
			continue
		}
		i := slices.IndexFunc(next.Loops, func(l config.Loop) bool { return l.ID == id })
		if i < 0 {
			wrong("/loops", "the loop %q runs, so it cannot go or get another id; to end it type: superloop cancel --loop %s", id, id)
			continue
		}
		is, at := next.Loops[i], fmt.Sprintf("/loops/%d", i)
		if is.SpecFile != was.SpecFile {
			wrong(at+"/spec_file", "the loop %q runs on %s, so its spec cannot become %s before it ends; to end it type: superloop cancel --loop %s",
				id, was.SpecFile, is.SpecFile, id)
		}
		if is.Git.Worktree != was.Git.Worktree {
			wrong(at+"/git/worktree", "the loop %q runs in %s, so it cannot move to %s before it ends; to end it type: superloop cancel --loop %s",
				id, where[was.Git.Worktree], where[is.Git.Worktree], id)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	if doc, _ := schemas.Read(schemas.Config, data); doc != nil {
		for i := range problems {
			problems[i].Line, problems[i].Column = place(doc, problems[i].Pointer)
		}
	}
	return schemas.Sort(problems)
}

// place is where a value stands, or the nearest one around it.
func place(doc *schemas.Document, pointer string) (line, column int) {
	line, column, ok := doc.Position(pointer)
	for !ok && pointer != "" {
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
		line, column, ok = doc.Position(pointer)
	}
	return line, column
}
