package loop

// FinalStarted says that the tests begin in a fresh checkout of a commit.
type FinalStarted struct {
	Commit   string   `json:"commit"`
	Commands []string `json:"commands"` // the setup, then the tests
	Of
}

// FinalEnded is the outcome of the tests in a fresh checkout. ExitCode is that of the first command that failed.
type FinalEnded struct {
	Commit      string `json:"commit,omitempty"`
	Status      string `json:"status"` // ok, failed
	ExitCode    int    `json:"exit_code"`
	Failed      string `json:"failed_command,omitempty"`
	Details     string `json:"details,omitempty"` // why it failed without a command
	Results     string `json:"results_file,omitempty"`
	DurationMS  int64  `json:"duration_ms"`
	Interrupted bool   `json:"interrupted,omitempty"`
	Of
}

func (FinalStarted) Event() string { return "final_start" }
func (FinalEnded) Event() string   { return "final_end" }

// testFinally runs the tests in a fresh checkout, when everything else says that the iteration completes the loop.
func (t *turn) testFinally() {
	if !t.s.Plan.Final || len(t.s.Missing) > 0 {
		t.advance()
		return
	}
	t.issue(t.effect(RunFinal, ""))
}

func (t *turn) finalEnded(f FinalEnded) {
	if f.Interrupted {
		t.s.Begun = false
		return
	}
	if t.s.Gates.Final = f.Status; f.Status != "ok" {
		t.decide()
	}
	t.advance()
}

const finalWords = `the tests do not pass in a fresh checkout of what is committed (final-output.txt); perhaps a file that they need is ignored or not committed,` +
	` or "gates": {"setup": [...]} lacks an install`
