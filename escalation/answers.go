package escalation

import (
	"fmt"
	"strings"
)

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

// AnswerRequest is an answer that an operator gives to Store.Answer.
type AnswerRequest struct {
	Method Method
	By     By
	Note   string
	// ID and Digest, at least 8 digits each, bind the answer to one question. If both are "", the answer is for the
	// pending question.
	ID, Digest string
	Edit       *EditedCommand // with Approve: the command to run instead of the proposed one
}

// EditedCommand is the command that an operator wants to run instead of the proposed one.
type EditedCommand struct{ Text []byte }

// check returns an error if the request is invalid for any question.
func (a AnswerRequest) check() error {
	for _, given := range [][2]string{{"id", a.ID}, {"digest", a.Digest}} {
		if v := given[1]; v != "" && (len(v) < 8 || len(v) > 64 || !isHex(v, len(v))) {
			return fmt.Errorf("answering: the %s is %q; give 8 or more of its hexadecimal digits, as escalation.json has them", given[0], cut(v, 64))
		}
	}
	switch {
	case leads[a.Method] == "":
		return fmt.Errorf("answering: %q is no answer; it is approve, reject or resolve", a.Method)
	case a.By.Channel != CLI && a.By.Channel != Slack:
		return fmt.Errorf("answering: the channel is %q; it is cli or slack", a.By.Channel)
	case a.Edit == nil:
		return nil
	case a.Method != Approve:
		return fmt.Errorf("answering: a corrected command goes with approve, not with %s", a.Method)
	}
	if err := runnable(a.Edit.Text); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}

func (a AnswerRequest) bound() string {
	return map[[2]bool]string{{true, true}: "both", {true, false}: "id", {false, true}: "digest"}[[2]bool{a.ID != "", a.Digest != ""}]
}

// names reports whether the answer is for the question of r.
func (a AnswerRequest) names(r Record) bool {
	return strings.HasPrefix(r.Question.ID, a.ID) && strings.HasPrefix(r.Digest, a.Digest)
}
