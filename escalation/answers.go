package escalation

// Way is one way to answer a question: what it does, in a word or two, and the command line to paste.
type Way struct {
	Does string `json:"does"`
	Line string `json:"line"`
}

// Ways returns the ways to answer r, the best first. Where there is no command to approve, none is offered: the operator
// says that the cause is mended, or ends the loop.
func (r Record) Ways() []Way {
	a, q := r.Actions(), r.Question
	switch {
	case q.Tool != nil:
		return []Way{{"approve", a.Approve}, {"reject", a.Reject + " --note TEXT"}}
	case q.Command != nil:
		return []Way{{"approve", a.Approve}, {"reject", a.Reject}, {"mended", a.Resolve}}
	case q.Type == CompletionApproval:
		return []Way{{"done", a.Approve}, {"not yet", a.Reject + " --note TEXT"}}
	case q.Rule == RulePreflight:
		return []Way{{"mended", a.Resolve}, {"go on", a.Approve}, {"end it", a.Reject}}
	}
	return []Way{{"mended", a.Resolve}, {"end it", a.Reject}}
}

// RulePreflight is the rule of a question about an environment check. Only there approval means to go on all the same.
const RulePreflight = "preflight"
