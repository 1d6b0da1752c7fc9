package loop

import (
	"fmt"
	"slices"
	"strings"
)

// Completion is the part of a Plan that says what completion needs besides the promise and the gates. A Plan without it
// is that of an older superloop, and its loop needs nothing more.
type Completion struct {
	Change bool `json:"require_change,omitempty"` // the run must have changed the work tree
	// Ungated says that superloop itself executes, reads and asks nothing that completion needs, and that the loop does
	// not allow this.
	Ungated bool `json:"ungated,omitempty"`
	// Reports are the roles that must have left a new report in the iteration of the promise.
	Reports []string `json:"require_reports,omitempty"`
	// Baseline says that the tests run once before the first role. TestChange says that the run must have changed a test
	// file.
	Baseline   bool `json:"tests_baseline,omitempty"`
	TestChange bool `json:"require_test_change,omitempty"`
}

// The results of the tests before the first role, in State.Baseline.
const (
	BaselineGreen = "green"
	BaselineRed   = "red"
)

// TestsBaseline is the outcome of the run of the test commands before the first role. ExitCode is that of the first
// command that failed.
type TestsBaseline struct {
	Status      string `json:"status"` // green, red; "" if it was interrupted
	ExitCode    int    `json:"exit_code"`
	DurationMS  int64  `json:"duration_ms"`
	Failed      string `json:"failed_command,omitempty"`
	Interrupted bool   `json:"interrupted,omitempty"`
	Unreadable  string `json:"unreadable,omitempty"` // as in TestsEnded
	Of
}

// testsBaseline runs the tests before the first role of the run, or goes on.
func (t *turn) testsBaseline() {
	if c := t.s.Plan.Completion; c == nil || !c.Baseline || t.s.Iteration > 1 || t.s.Baseline != "" {
		t.advance()
		return
	}
	t.issue(t.effect(RunTests, ReasonBaseline))
}

func (t *turn) baselineTested(f TestsBaseline) {
	if f.Interrupted {
		t.s.Begun = false
		return
	}
	if t.unreadable(t.s.At, f.Unreadable) {
		return
	}
	t.s.Baseline = f.Status
	t.advance()
}

// Unseen says that the tests passed before the first role and pass now, and that no test file has changed, so that the
// tests do not show whether the work is done. It returns "" if that is not so.
func (s State) Unseen() string {
	if s.Baseline != BaselineGreen || s.Gates.Tests != "ok" || s.Gates.TestChange != ChangeNone {
		return ""
	}
	return `nothing that the tests see has changed: they passed before the first role, too, and no test file is another one; "completion": {"require_test_change": true} asks for a test`
}

// The verdicts about the change of a run, in Gates.Change.
const (
	ChangeOK      = "ok"
	ChangeNone    = "none"       // no file differs from the tree before the first role, or only ignored ones do
	ChangeSpace   = "whitespace" // the files that differ have other white space only
	ChangeUnknown = "unknown"    // superloop no longer has the tree before the first role
)

// changeWords says for each verdict about the change what it means.
var changeWords = map[string]string{
	ChangeNone:    "nothing in the work tree has changed since the run began",
	ChangeSpace:   "only white space has changed in the work tree since the run began",
	ChangeUnknown: "superloop has lost the tree from before the first role, so it cannot tell what has changed; superloop run --fresh takes it anew",
}

// The verdicts about a report, in Gates.Reports behind the name of its file. A report may also be missing, stale or
// empty, in the words of package roles.
const (
	ReportsOK      = "ok"
	ReportRepeated = "repeated" // an earlier iteration or run left the same report, but for white space
)

var reportWords = map[string]string{
	"missing":      "was not written in this iteration",
	"stale":        "is older than this iteration",
	"empty":        "is empty",
	ReportRepeated: "is one of an earlier iteration or run over again",
}

// earlierReports bounds State.Reports.
const earlierReports = 64

// keepReports notes the reports of the iteration that ends, so that none of them counts a second time.
func (t *turn) keepReports() {
	if t.s.Plan.Completion == nil {
		return
	}
	all := slices.Clone(t.s.Reports)
	for _, role := range t.s.Plan.Completion.Reports {
		if d := t.s.Roles[role].Digest; d != "" {
			all = append(all, d)
		}
	}
	t.s.Reports = all[max(0, len(all)-earlierReports):]
}

// WhyMissing explains the entries of State.Missing that belong to the rules of completion. Each sentence names the
// config key that turns the rule off.
func WhyMissing(missing []string) []string {
	var out []string
	for _, m := range missing {
		name, got, _ := strings.Cut(m, "=")
		switch name {
		case "gates":
			out = append(out, "nothing that superloop itself executes decides whether the loop is done; set tests.commands, or \"completion\": {\"allow_ungated\": true}")
		case "final":
			out = append(out, finalWords)
		case "tree":
			out = append(out, treeWords[got])
		case "change":
			out = append(out, fmt.Sprintf(`%s; if the loop's job is no change, set "completion": {"require_change": false} in it`, changeWords[got]))
		case "test_change":
			out = append(out, `no test file has changed since the run began; "completion": {"require_test_change": false} in the loop asks for none`)
		case "reports":
			file, how, _ := strings.Cut(got, ":")
			out = append(out, fmt.Sprintf(`%s %s; "completion": {"require_reports": []} in the loop asks for none`, file, reportWords[how]))
		}
	}
	return out
}
