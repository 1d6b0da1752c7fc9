package roles

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/markdown"
)

// Bounds of the two lists in the prompt, in bytes and entries. phaseRead bounds the bytes that are read of one phase
// file.
const contextBytes, phaseBytes, maxPhases, phaseRead = 12 << 10, 8 << 10, 64, 1 << 20

// Places says where Gather looks for files.
type Places struct {
	WorkDir          string // the directory in which the agent runs: the repository or the loop's worktree
	SpecFile         string // relative to WorkDir; absolute if the file is elsewhere
	LoopDir          string
	Role             string
	Branch, Worktree string // names for the prompt; "" shows none
	Checklist        string // absolute: where the boxes of the spec are ticked; "" if nowhere
}

// contextNames are the labels and names of files in the loop's directory. Their order is that of the original bash
// version of superloop, so that role files written for it still work. contextLater come after the git entries.
var (
	contextNames = [][2]string{
		{"Plan", "plan.md"}, {"Iteration notes", "iteration_notes.md"},
		{"Implementer report", "implementer.md"}, {"Reviewer report", "review.md"}, {"Test report", "test-report.md"},
		{"Test output", "test-output.txt"}, {"Test status", "test-status.json"},
		{"Validation status", "validation-status.json"}, {"Validation results", "validation-results.json"},
		{"Checklist status", "checklist-status.json"}, {"Checklist remaining", "checklist-remaining.md"}, {"Evidence", "evidence.json"},
	}
	contextLater = [][2]string{
		{"Lint feedback", "lint-feedback.txt"}, {"Reviewer packet", "reviewer-packet.md"},
		{"Files changed by planner", "changed-files-planner.txt"}, {"Files changed by implementer", "changed-files-implementer.txt"},
		{"All files changed this iteration", "changed-files-all.txt"},
	}
)

// checklistLabel names the checklist of a spec in the prompts of all roles.
const checklistLabel = "Checklist (tick a box when you have seen it done; the loop completes when all are ticked)"

// Gather finds the context files that exist, and counts the tasks in the phase files. A file that cannot be examined
// counts as absent. That is harmless, because the prompt only points to files and the agent reads them itself.
func Gather(pl Places) ([]ContextFile, []Phase) {
	var list []ContextFile
	spec := pl.SpecFile
	if !filepath.IsAbs(spec) {
		spec = filepath.Join(pl.WorkDir, spec)
	}
	// The owner may keep the spec elsewhere and link to it, so os.Stat follows the link.
	if info, err := os.Stat(spec); err == nil && pl.SpecFile != "" && info.Mode().IsRegular() {
		list = append(list, ContextFile{"Spec", pl.SpecFile})
	}
	if info, err := os.Lstat(pl.Checklist); err == nil && info.Mode().IsRegular() {
		list = append(list, ContextFile{checklistLabel, pl.Checklist})
	}
	add := func(entries [][2]string) {
		for _, e := range entries {
			path := filepath.Join(pl.LoopDir, e[1])
			if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 && (e[0] != "Reviewer packet" || pl.Role == Reviewer) {
				list = append(list, ContextFile{e[0], path})
			}
		}
	}
	add(contextNames)
	tasks := filepath.Join(pl.LoopDir, "tasks")
	info, err := os.Lstat(tasks)
	hasTasks := err == nil && info.IsDir()
	if hasTasks {
		list = append(list, ContextFile{"Tasks directory", tasks})
	}
	for _, git := range []ContextFile{{"Git branch", pl.Branch}, {"Git worktree", pl.Worktree}} {
		if git.Value != "" {
			list = append(list, git)
		}
	}
	add(contextLater)
	if !hasTasks {
		return list, nil
	}
	return list, phases(tasks)
}

// phases reads tasks/PHASE_*.MD, sorted by their numbers.
func phases(tasks string) []Phase {
	entries, _ := os.ReadDir(tasks)
	var list []Phase
	for _, e := range entries {
		if name := strings.ToUpper(e.Name()); !strings.HasPrefix(name, "PHASE_") || !strings.HasSuffix(name, ".MD") {
			continue
		}
		path := filepath.Join(tasks, e.Name())
		if text, _, err := door.Ends(path, phaseRead, 0); err == nil {
			open, done := markdown.Boxes(text)
			list = append(list, Phase{File: path, Remaining: open, Total: open + done})
		}
	}
	slices.SortFunc(list, func(a, b Phase) int {
		x, y := filepath.Base(a.File), filepath.Base(b.File)
		return cmp.Or(cmp.Compare(phaseNumber(x), phaseNumber(y)), cmp.Compare(x, y))
	})
	return list
}

// phaseNumber returns the number in PHASE_<n>... A name without a number sorts last.
func phaseNumber(name string) int {
	name = name[len("PHASE_"):]
	n, err := strconv.Atoi(name[:len(name)-len(strings.TrimLeft(name, "0123456789"))])
	if err != nil {
		return math.MaxInt
	}
	return n
}

func contextSection(files []ContextFile) string {
	if len(files) == 0 {
		return ""
	}
	p := &page{}
	p.f("Context files (read as needed):\n")
	for i, c := range files {
		entry := "- " + line(c.Label, maxWord) + ": " + shortPath(c.Value) + "\n"
		if p.Len()+len(entry) > contextBytes {
			p.f("- and %d more\n", len(files)-i)
			break
		}
		p.WriteString(entry)
	}
	return p.String()
}

func phaseSection(list []Phase) string {
	if len(list) == 0 {
		return ""
	}
	p := &page{}
	p.f("Phase files:\n")
	active := ""
	for i, ph := range list {
		state := "complete"
		switch {
		case ph.Total == 0:
			state = "no tasks in it"
		case ph.Remaining > 0 && active == "":
			active = shortPath(ph.File)
			state = "ACTIVE - " + count(ph.Remaining, "task") + " remaining"
		case ph.Remaining > 0:
			state = count(ph.Remaining, "task") + " remaining"
		}
		entry := "- " + shortPath(ph.File) + " (" + state + ")\n"
		if i == maxPhases || p.Len()+len(entry) > phaseBytes {
			p.f("- and %d more\n", len(list)-i)
			break
		}
		p.WriteString(entry)
	}
	if active != "" {
		p.f("Active phase file: %s\n", active)
	}
	return p.String()
}
