package gate

// Verdicts are the answers of one iteration's gates, in the words of
// gate-summary.txt. An empty one was not asked for.
type Verdicts struct {
	Promise       string `json:"promise,omitempty"`       // true, false
	Tests         string `json:"tests,omitempty"`         // ok, failed, skipped
	Checklist     string `json:"checklist,omitempty"`     // ok, remaining
	Validation    string `json:"validation,omitempty"`    // ok, failed, skipped
	Prerequisites string `json:"prerequisites,omitempty"` // ok, failed, skipped
	Evidence      string `json:"evidence,omitempty"`      // ok, failed, skipped
	Approval      string `json:"approval,omitempty"`      // skipped, pending, approved, rejected
}

// Inputs are what completion is decided from: the verdicts, and which gates
// beside promise and checklist the configuration asks for. A gate that is asked
// for is passed by "ok" alone; "skipped" is not a verdict on anything.
type Inputs struct {
	Verdicts
	NeedTests         bool // the mode is not disabled and there are commands
	NeedValidation    bool // enabled and required on completion
	NeedPrerequisites bool // enabled and required on completion
	NeedEvidence      bool // enabled and required on completion
}

// Completion reports whether the work is complete: the promise was made, the
// tests pass, no checklist item is left, the evidence is there, and validation
// and prerequisites hold where they are asked for. missing names each gate that
// is not passed with its answer, "tests=failed", in the order of the summary.
// Approval is not part of it: a person is asked only when all else is done.
func Completion(in Inputs) (complete bool, missing []string) {
	need := func(asked bool, name, got, want string) {
		if asked && got != want {
			missing = append(missing, name+"="+orUnknown(got))
		}
	}
	need(true, "promise", in.Promise, StatusTrue)
	need(in.NeedTests || in.Tests == StatusFailed, "tests", in.Tests, StatusOK)
	need(in.NeedValidation, "validation", in.Validation, StatusOK)
	need(in.NeedPrerequisites, "prerequisites", in.Prerequisites, StatusOK)
	need(true, "checklist", in.Checklist, StatusOK)
	need(in.NeedEvidence, "evidence", in.Evidence, StatusOK)
	return len(missing) == 0, missing
}
