package loop

// UnseenFiles stands for the signature of a work tree with more files than superloop looks at. It is like no signature.
const UnseenFiles = "unseen"

// The verdicts about the files, in Gates.Tree.
const (
	TreeOK      = "ok"
	TreeChanged = "changed" // they changed after each run of the tests
	TreeUnseen  = "unseen"  // superloop cannot look at all of them
)

// maxPasses is how often the gates run again in one iteration because files changed after the tests had run.
const maxPasses = 2

// stale reports whether files changed since the tests began. A journal without signatures of the files has those of the
// snapshots, which follow git.
func (s State) stale() bool {
	if s.Files == "" || s.TestsFiles == "" {
		return s.Tree != s.TestsTree
	}
	return s.Files != s.TestsFiles || s.Files == UnseenFiles
}

// checkTree looks at the files once more before the loop completes. What ran since the tests may have changed them: roles,
// processes that roles left, validation, formatters and hooks of the commit.
func (t *turn) checkTree() {
	if len(t.s.Missing) > 0 || t.s.Files == "" || t.s.TestsFiles == "" && !t.s.Plan.Approval {
		t.advance()
		return
	}
	t.issue(t.effect(CheckTree, ""))
}

// treeChecked completes the iteration if the files are those on which the tests ran. Otherwise the gates run again, and
// if the files do not come to rest, the loop goes on with the next iteration.
func (t *turn) treeChecked(f TreeChecked) {
	t.s.Files = f.Files
	switch {
	case t.s.TestsFiles == "":
		t.advance()
		return
	case !t.s.stale():
		t.s.Gates.Tree = TreeOK
		t.advance()
		return
	case t.s.Passes < maxPasses && f.Files != UnseenFiles:
		t.s.Passes++
		t.enter(stepChecklists)
		return
	}
	t.s.Gates.Tree = TreeChanged
	if f.Files == UnseenFiles {
		t.s.Gates.Tree = TreeUnseen
	}
	t.decide()
	t.advance()
}

// ranOn takes the signature of the files after commands that superloop ran behind the tests: what they wrote themselves is
// no change.
func (t *turn) ranOn(files string) {
	if files != "" && t.s.TestsFiles != "" {
		t.s.TestsFiles = files
	}
}

// again reports whether the gates run again in this iteration.
func (s State) again() bool { return s.Recheck || s.Passes > 0 }

// treeWords says for each verdict about the files what it means, and what helps.
var treeWords = map[string]string{
	TreeChanged: "files changed after each run of the tests, so nobody knows whether the tests pass on them; superloop events --event tree_checked" +
		" names some; what tests only write belongs into tests.outputs",
	TreeUnseen: "the work tree has more files than superloop looks at, so it cannot tell whether they changed after the tests; leave out what no test" +
		" reads by tests.outputs",
}
