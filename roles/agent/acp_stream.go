package agent

import (
	"cmp"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

var acpLines = paths{
	64: `id method params.update.sessionUpdate params.update.kind params.update.status params.update.cost.amount params.update.cost.currency
		result.stopReason result._meta.quota.token_count.* error.code error.data.errorName result.usage.* params.update._meta.usage.*`,
	256:       "params.sessionId result.sessionId",
	512:       "params.update.title params.update.rawInput.command params.update.rawOutput.error",
	64 << 10:  "error.message error.data.details",
	finalText: "params.update.content.text",
}.lazy()

// acpNames are the names of the counters of qwen and copilot. The input includes both kinds of cached tokens.
var acpNames = counterNames{"inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens", "thoughtTokens"}

// acpStream reads what an agent of the Agent Client Protocol prints, beside acpClient. The protocol tells the tokens of the
// last answer of the model only; a CLI's own counters of a whole prompt are added up.
type acpStream struct {
	jsonLines
	said    *proc.HeadTail // the agent's text since the last use of a tool
	fresh   bool           // the next text begins a new message
	began   bool           // the session has begun
	over    bool           // the conversation is over
	stop    string         // why the last turn ended
	failure string
	name    string // the CLI's name of the failure
	loads   string // the old session that is loaded; "" begins a new one
	refusal string
	usage   Usage
	counts  bool // the answer to a prompt has the tokens of the run so far
	cost    float64
	// log is the reader of the CLI's own log on standard error; nil: the CLI has none.
	log *opencodeStream
	// classify gives the class of a failure.
	classify func(s *acpStream, end proc.Result) class.Class
}

func newACPStream(req Request) *acpStream {
	s := &acpStream{said: proc.NewHeadTail(finalHalf)}
	if req.Resume != nil && req.Asked != permit.Enforce {
		s.loads = req.Resume.ID
	}
	s.read(acpLines(), s.event)
	return s
}

func (s *acpStream) Settled() Settled {
	if s.log != nil && s.log.asleep && !s.log.many && !s.over {
		return Waiting
	}
	return settledAs(s.over, false, false)
}

func (s *acpStream) event(e event) bool {
	method := e.str("method")
	if method != "" && method != "session/update" {
		return strings.HasPrefix(method, "session/")
	}
	if method == "" {
		return s.answered(e)
	}
	if !s.began { // an old session is shown
		return true
	}
	if s.log != nil {
		s.log.tried, s.log.asleep = "", false
	}
	switch e.str("params.update.sessionUpdate") {
	case "agent_message_chunk":
		s.usage = s.usage.plus(disjoint(e.counters("params.update._meta.usage.*", acpNames)))
		if v, ok := e.text("params.update.content.text"); ok && len(v.Raw) > 0 {
			if s.fresh {
				s.said, s.fresh = proc.NewHeadTail(finalHalf), false
			}
			_, _ = s.said.Write(whole(v, finalText))
			s.say(s.said.Capture().Text())
		}
	case "agent_thought_chunk":
		s.say(e.str("params.update.content.text"))
	case "tool_call", "tool_call_update":
		s.fresh = true
		tool, what := e.str("params.update.kind"), cmp.Or(e.str("params.update.rawInput.command"), e.str("params.update.title"))
		if said := e.str("params.update.rawOutput.error"); opencodeDenied(said) {
			s.denied++
			s.refusal = said
		}
		if tool != "" {
			s.does(tool, what)
		}
	case "usage_update":
		if cost, ok := e.float("params.update.cost.amount"); ok && e.str("params.update.cost.currency") == "USD" {
			s.cost = cost
		}
	}
	return true
}

// answered reads an answer to a request of superloop's.
func (s *acpStream) answered(e event) bool {
	id, ok := e.last("id")
	switch {
	case !ok:
		return false
	case string(id.Raw) == acpDone:
		s.over = true
		return true
	}
	if n, ok := number(id); ok && n == acpNew && e.str("error.message") == "" {
		s.began, s.session = true, cmp.Or(e.str("result.sessionId"), s.loads)
	}
	if said := e.str("error.message"); said != "" {
		s.failure, s.name = strings.TrimPrefix(said, "Internal error: "), e.str("error.data.errorName")
		if details := e.str("error.data.details"); details != "" {
			s.failure = details
		}
		s.say(s.failure)
	}
	if stop := e.str("result.stopReason"); stop != "" {
		s.stop, s.fresh = stop, true
		s.usage = s.usage.plus(e.counters("result._meta.quota.token_count.*", counterNames{"input_tokens", "output_tokens"}))
		if s.counts {
			s.usage = disjoint(e.counters("result.usage.*", acpNames))
		}
	}
	return true
}

func (s *acpStream) Finish(end proc.Result) Learned {
	learned := s.close()
	learned.FinalMessage, learned.Usage, learned.StopReason = captured(s.said, door.JoinCut), s.usage, s.stop
	if s.cost > 0 {
		cost := s.cost
		learned.CostUSD = &cost
	}
	switch {
	case s.failure != "" && s.loads != "" && !s.began:
		learned.ErrorText, learned.Class = errorText(s.failure), class.Session
	case s.failure != "":
		learned.ErrorText, learned.Class = errorText(s.failure), cmp.Or(s.classify(s, end), class.Unknown)
		learned.limited("", waited(end.LastOutput, 0))
	case s.over && s.stop == "end_turn":
		learned.Done = true
	case s.stop == "refusal":
		learned.Class = class.Refused
	case s.log != nil && s.log.tried != "":
		learned.Class, learned.ErrorText = classOf("opencode.tried", s.log.tried), errorText(s.log.tried)
	default:
		learned.Class, learned.ErrorText = class.NoResult, errorText(s.refusal)
	}
	return learned
}
