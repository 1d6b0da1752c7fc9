package loop

// PromiseChecked says that superloop has read the last message of the promise role.
type PromiseChecked struct {
	Expected    string  `json:"expected"`
	Text        *string `json:"text"`
	Matched     bool    `json:"matched"`
	Tree        string  `json:"tree,omitempty"`
	TreeChanged bool    `json:"tree_changed,omitempty"` // the files are not the ones on which the tests ran
	// Files is State.Files, if the promise matches. Paths are the first of the paths that changed since the tests began, if
	// superloop can tell.
	Files string   `json:"files,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Change is the verdict about the change of the run (Gates.Change), if the promise matches and completion needs a
	// change. Changed is how many paths outside the ignore list differ from the tree before the first role.
	Change  string `json:"change,omitempty"`
	Changed int    `json:"changed,omitempty"`
	// TestChange is the verdict about the test files (Gates.TestChange), if the promise matches and there is a baseline of
	// the tests, or completion needs a change of them.
	TestChange string `json:"test_change,omitempty"`
	Reports    string `json:"reports,omitempty"` // Gates.Reports, if the promise matches and completion needs reports
	Of
}

// TreeChecked says that superloop has looked at all files that tests can read, right before the loop would complete.
type TreeChecked struct {
	Files   string   `json:"files"`             // State.Files
	Changed bool     `json:"changed,omitempty"` // the files are not the ones on which the tests ran
	Paths   []string `json:"paths,omitempty"`   // the first of the paths that changed, if superloop can tell
	Of
}

func (PromiseChecked) Event() string { return "promise_checked" }
func (TreeChecked) Event() string    { return "tree_checked" }
