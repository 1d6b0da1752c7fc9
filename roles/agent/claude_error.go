package agent

import (
	"cmp"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// claudeRetryClass is what a request failed of that the CLI repeats; without a status there was no answer.
func claudeRetryClass(word string, status int64) class.Class {
	switch known := classOf("claude.error", word); {
	case known != class.None:
		return known
	case status != 0:
		return statusClass(int(status))
	case word == "server_error":
		return class.Overloaded
	}
	return class.Network
}

// good: all four words on a turn's end say that it went well.
func (r claudeResult) good() bool {
	return r.ended && !r.failed && classOf("claude.terminal_reason", r.reason) == class.None && r.status == 0 && (r.subtype == "success" || r.subtype == "")
}

func (s *claudeStream) judge(learned *Learned, end proc.Result) {
	r := s.result
	switch {
	case r.good():
		learned.Done = true
		return
	case r.ended:
		learned.Class, learned.ErrorText = s.failure(r), errorText(cmp.Or(r.text, r.problems))
	case s.limit != nil:
		learned.Class, learned.ErrorText = class.Limit, errorText(strings.TrimSpace(s.limit.Kind+" limit reached"))
	case s.retry.class != class.None: // ended while it waited
		learned.Class, learned.ErrorText = s.retry.class, s.retry.text
	default:
		learned.Class, learned.ErrorText = class.NoResult, errorText(s.stderr())
	}
	if learned.Class != class.Limit {
		return
	}
	learned.Limit = s.limit
	if s.limit == nil {
		// A release that does not tell the time otherwise.
		learned.Limit = &Limit{ResetsAt: resetIn(r.text, end.LastOutput, time.Local)}
	}
	learned.Limit.Text = learned.ErrorText
}

// failure classifies a turn that ended badly, by the most particular word that the CLI gives. Only where it has no word
// is a text looked at, and only one that the CLI wrote in the agent's place.
func (s *claudeStream) failure(r claudeResult) class.Class {
	word, reason := classOf("claude.error", s.word), classOf("claude.terminal_reason", r.reason)
	if reason == class.Unknown {
		reason = class.None
	}
	if found := cmp.Or(reason, classOf("claude.subtype", r.subtype), classOf("claude.api_error", s.detail)); found != class.None {
		return found
	}
	switch {
	case r.stop == "refusal":
		return class.Refused
	case s.limit != nil:
		return class.Limit
	case classOf("claude.session", r.problems) != class.None:
		return class.Session
	case word == class.Request && (strings.HasPrefix(r.text, "Prompt is too long") || r.status == 413):
		return class.Context
	case word != class.None:
		return word
	case r.status != 0:
		return statusClass(int(r.status))
	}
	written := class.None
	if s.word != "" && r.failed { // the text is the CLI's, not the agent's
		written = classOf("claude.text", r.text)
	}
	if s.word == "server_error" {
		return cmp.Or(written, s.retry.class, class.Overloaded)
	}
	return cmp.Or(written, s.retry.class, class.Unknown)
}

// startFailure explains a failed run without events by a table; the text begins with the line that was found.
func startFailure(table, stderr string, end proc.Result) (class.Class, string) {
	if !failed(end) {
		return class.None, ""
	}
	found, at := findClass(table, stderr)
	if found == class.None {
		return class.None, ""
	}
	return found, errorText(stderr[strings.LastIndexByte(stderr[:at], '\n')+1:])
}
