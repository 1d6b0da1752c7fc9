package loop

import "github.com/superloop/superloop/recovery/plan"

// Diagnosis is what rules say of a failure, for the prompts of the roles to come and for the person who is asked.
type Diagnosis struct {
	Iteration int      `json:"iteration"`
	Command   string   `json:"command"`
	Category  string   `json:"category"`
	Handler   string   `json:"handler,omitempty"`
	Infra     bool     `json:"infra"`
	Code      bool     `json:"code"`
	Signature string   `json:"signature"`
	Why       string   `json:"why"`
	Evidence  []string `json:"evidence,omitempty"`
	Hints     []string `json:"hints,omitempty"`
	// Options are those that have a command and were not carried out.
	Options []plan.Choice `json:"options,omitempty"`
}

// maxDiagnosed bounds the options that are remembered.
const maxDiagnosed = 6

// diagnosisOf is what is kept of a classification.
func diagnosisOf(f Classified, iteration int) *Diagnosis {
	d := &Diagnosis{Iteration: iteration, Command: f.Command, Category: f.Category, Handler: f.Handler, Infra: f.Infra, Code: f.Code,
		Signature: f.Signature, Why: f.Why, Evidence: f.Evidence, Hints: f.Hints}
	for _, o := range f.Options {
		if o.Command != "" && o.Availability != "impossible" && len(d.Options) < maxDiagnosed {
			d.Options = append(d.Options, o)
		}
	}
	return d
}

// Aid counts what was fixed by rules alone.
type Remediation struct {
	Diagnosed int `json:"diagnosed,omitempty"` // failures that were classified
	Chains    int `json:"chains,omitempty"`    // that were opened
	Remedied  int `json:"cured,omitempty"`     // and led to passing tests
}
