package roles

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestGather(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	loop := filepath.Join(work, ".superloop", "loops", "demo")
	spec := filepath.Join(".superloop", "specs", "demo.md")
	write(t, filepath.Join(work, spec), "spec")
	for _, f := range []string{"evidence.json", "plan.md", "review.md", "reviewer-packet.md", "changed-files-all.txt"} {
		write(t, filepath.Join(loop, f), "x")
	}
	write(t, filepath.Join(loop, "test-report.md"), "") // empty: nothing to read
	if err := os.Symlink("/etc/passwd", filepath.Join(loop, "implementer.md")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(loop, "tasks", "PHASE_10.MD"), "- [ ] later\n")
	write(t, filepath.Join(loop, "tasks", "PHASE_2.MD"), "- [x] a\n* [ ] b\n1. [ ] c\n```\n- [ ] sample\n```\n")
	write(t, filepath.Join(loop, "tasks", "PHASE_1.MD"), "- [x] a\n- [X] b\n")
	write(t, filepath.Join(loop, "tasks", "notes.md"), "- [ ] not a phase\n")

	pl := Places{WorkDir: work, SpecFile: spec, LoopDir: loop, Role: Reviewer, Branch: "superloop/demo"}
	files, phases := Gather(pl)
	var got []string
	for _, f := range files {
		rel, _ := filepath.Rel(loop, f.Value)
		if !filepath.IsAbs(f.Value) {
			rel = f.Value
		}
		got = append(got, f.Label+"="+rel)
	}
	want := []string{
		"Spec=" + spec, "Plan=plan.md", "Reviewer report=review.md", "Evidence=evidence.json", "Tasks directory=tasks",
		"Git branch=superloop/demo", "Reviewer packet=reviewer-packet.md", "All files changed this iteration=changed-files-all.txt",
	}
	if !slices.Equal(got, want) {
		t.Errorf("context files\n%q\nwant\n%q", got, want)
	}
	var states []string
	for _, p := range phases {
		states = append(states, fmt.Sprintf("%s %d/%d", filepath.Base(p.File), p.Remaining, p.Total))
	}
	if want := []string{"PHASE_1.MD 0/2", "PHASE_2.MD 2/3", "PHASE_10.MD 1/1"}; !slices.Equal(states, want) {
		t.Errorf("phases %q, want %q", states, want)
	}
	text := phaseSection(phases)
	for _, want := range []string{"PHASE_1.MD (complete)", "PHASE_2.MD (ACTIVE - 2 tasks remaining)", "PHASE_10.MD (1 task remaining)", "Active phase file: " + filepath.Join(loop, "tasks", "PHASE_2.MD")} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}

	pl.Role = Planner
	files, _ = Gather(pl)
	if slices.ContainsFunc(files, func(c ContextFile) bool { return c.Label == "Reviewer packet" }) {
		t.Error("the planner is given the reviewer's packet")
	}
	if files, phases := Gather(Places{WorkDir: work, SpecFile: "gone.md", LoopDir: filepath.Join(work, "gone")}); len(files)+len(phases) != 0 {
		t.Errorf("of an empty place: %v %v", files, phases)
	}
}
