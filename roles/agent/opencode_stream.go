package agent

import (
	"cmp"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent/class"
)

// What is kept of opencode's events, all of which have type, timestamp and
// sessionID:
//
//	step_start, text{part{text,synthetic}}, tool_use{part{tool,state{status,title,input,error}}}
//	step_finish{part{id,reason,cost,tokens{input,output,reasoning,cache{read,write}}}}
//	error{error{name,data{message,statusCode,isRetryable,responseHeaders,responseBody,ref}}}
var opencodeLines = paths{
	64: `type timestamp part.synthetic part.reason part.cost part.tokens.* part.tokens.cache.* error.data.statusCode
		error.data.isRetryable error.data.ref`,
	256:       "sessionID part.tool part.id error.name",
	512:       "part.state.title error.data.responseHeaders.*",
	1024:      "part.state.error part.state.input.error",
	64 << 10:  "error.data.message error.data.responseBody",
	finalText: "part.text",
}.lazy()

// opencodeStream reads one run of opencode.
type opencodeStream struct {
	jsonLines
	said    headTail // in the step that is under way or ended last
	refusal string   // the CLI's word for the last tool call that it denied

	reason   string // why the last step ended; "" while one is under way
	counted  string // the id of the step that was counted last
	usage    Usage
	cost     float64
	unpriced bool
	// failure is the error after which no step has ended. overflows counts the
	// steps in a row that the conversation was too long for.
	failure   *opencodeFailure
	overflows int
	log       opencodeLog
}

func newOpencodeStream() *opencodeStream {
	s := &opencodeStream{said: headTail{half: finalHalf}, log: opencodeLog{causes: map[string]string{}}}
	s.note = s.logged
	s.read(opencodeLines(), s.event)
	return s
}

// Settled: an error is the last event, except that a conversation that became
// too long is cut down and tried again; if that does not help the CLI tries it
// for ever. No step is known to be the last one before the process has left:
// the summary of a conversation that is cut down ends just like an answer.
func (s *opencodeStream) Settled() Settled {
	return settledAs(s.overflows < 2 && s.failure != nil && s.failure.name != opencodeOverflow, s.overflows > 1, false)
}

func (s *opencodeStream) event(e event) bool {
	if _, ok := e.text("sessionID"); !ok {
		return false
	}
	kind := e.str("type")
	switch kind {
	case "step_start":
		s.reason = ""
		s.said.reset()
	case "text":
		if synthetic, _ := e.bool("part.synthetic"); synthetic {
			// The CLI's own word to the agent, after it has summed up the
			// conversation: the run goes on.
			s.reason = ""
			s.said.reset()
		} else if v, ok := e.text("part.text"); ok {
			if len(s.said.head) > 0 {
				s.said.write([]byte("\n"))
			}
			s.said.write(whole(v, finalText))
			s.say(string(v.Raw))
		}
	case "tool_use":
		s.does(e.str("part.tool"), e.str("part.state.title"))
		for _, text := range []string{e.str("part.state.error"), e.str("part.state.input.error")} {
			if opencodeDenied(text) {
				s.denied++
				s.refusal = text
				break
			}
		}
	case "step_finish":
		s.step(e)
	case "error":
		s.fail(e)
	case "reasoning":
	default:
		return false
	}
	if kind == "text" || kind == "tool_use" || kind == "step_finish" {
		s.log.tried = ""
	}
	s.session = e.str("sessionID")
	return true
}

// opencodeRefusal is a tool's error of the CLI's permissions: a person (for whom
// nobody answered) or a rule said no, or the tool was not even offered.
var opencodeRefusal = pattern.Lazy(`^The user rejected permission|^The user has specified a rule which prevents you` +
	`|Model tried to call unavailable tool '(?:bash|edit|write|patch|multiedit|apply_patch|webfetch|task|invalid)'`)

func opencodeDenied(text string) bool { return opencodeRefusal().MatchString(text) }

func (s *opencodeStream) step(e event) {
	s.reason, s.failure, s.overflows = e.str("part.reason"), nil, 0
	id := e.str("part.id")
	if id != "" && id == s.counted {
		return
	}
	s.counted = id
	used := e.counters("part.tokens.*", counterNames{"input", "output", "", "", "reasoning"}).
		plus(e.counters("part.tokens.cache.*", counterNames{"", "", "read", "write"}))
	used = used.plus(Usage{Output: used.Reasoning})
	s.usage = s.usage.plus(used)
	cost, ok := e.float("part.cost")
	if n, _ := used.Total(); n > 0 && (!ok || cost <= 0) {
		s.unpriced = true // a model without a price costs 0 here
	}
	s.cost += cost
}

func (s *opencodeStream) fail(e event) {
	f := &opencodeFailure{
		name: e.str("error.name"), text: cmp.Or(e.str("error.data.message"), e.str("error.name")), body: e.str("error.data.responseBody"),
		ref: e.str("error.data.ref"), status: int(e.int("error.data.statusCode")), headers: map[string]string{},
	}
	f.retryable, _ = e.bool("error.data.isRetryable")
	for v := range e.all("error.data.responseHeaders.*") {
		if v.Type == 's' {
			f.headers[v.Keys[0]] = string(v.Raw)
		}
	}
	if ms := e.int("timestamp"); ms > 0 {
		f.at = time.UnixMilli(ms)
	}
	if f.name == opencodeOverflow {
		s.overflows++
	}
	s.failure = f
	s.say(f.text)
}

func (s *opencodeStream) Finish(end proc.Result) Learned {
	learned := s.close()
	learned.FinalMessage, learned.Usage, learned.StopReason = s.said.text(roles.JoinCut), s.usage, s.reason
	if s.usage != (Usage{}) && !s.unpriced {
		cost := s.cost
		learned.CostUSD = &cost
	}
	// After some reasons a step follows.
	last := !slices.Contains([]string{"", "tool-calls", "unknown", "error", "content-filter"}, s.reason)
	switch {
	case !s.known:
		learned.Class, learned.ErrorText = opencodeStart(end, s.stderr(), s.log)
	case s.failure != nil:
		s.failure.learn(&learned, s.log, end)
	case last && end.Ended == proc.Exited && end.Signal == "":
		learned.Done = true
	case s.log.tried != "":
		learned.Class, learned.ErrorText = classOf("opencode.tried", s.log.tried), errorText(s.log.tried)
	default:
		learned.Class, learned.ErrorText = class.NoResult, errorText(s.refusal)
	}
	return learned
}
