package agent

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

var opencodeLines = paths{
	64: `type timestamp part.synthetic part.reason part.cost part.tokens.* part.tokens.cache.* error.data.statusCode
		error.data.isRetryable error.data.ref`,
	256:       "sessionID part.tool part.id error.name",
	512:       "part.state.title error.data.responseHeaders.*",
	1024:      "part.state.error part.state.input.error",
	64 << 10:  "error.data.message error.data.responseBody",
	finalText: "part.text",
}.lazy()

type opencodeStream struct {
	jsonLines
	said    *proc.HeadTail // the text of the current or the last step
	refusal string         // the CLI's message about the last tool call that it denied

	reason   string // why the last step ended; "" while a step is under way
	counted  string // the id of the last step whose usage was counted
	usage    Usage
	cost     float64
	unpriced bool
	// failure is the last error after which no step has ended. overflows counts the failures in a row because the
	// conversation was too long.
	failure   *opencodeFailure
	overflows int
	// The findings in the CLI's log on standard error: causes are the errors behind "check server logs for details", by
	// the reference in the event; cause is the latest of them; tried is the error of the last failed request, while no
	// later request has succeeded.
	causes       map[string]string
	cause, tried string
	// asleep says that the last request has failed and that the next has not begun. asked is the session of the first
	// request. many says that sub-agents ask too; one may then sleep while another works.
	asleep, many bool
	asked        string
}

func (o opencode) Stream(req Request) Stream {
	if req.Asked != "" {
		return o.served(req)
	}
	s := &opencodeStream{said: proc.NewHeadTail(finalHalf), causes: map[string]string{}}
	s.note, s.noise = s.logged, opencodeLog
	s.read(opencodeLines(), s.event)
	return s
}

// Settled reports the run as finished after an error, because an error is the last event. The exception is a
// conversation that became too long: the CLI shortens it and tries again. If that does not help, the CLI retries for
// ever, so from the second such error on the run is hopeless. No step can be recognised as the last one before the
// process ends, because the summary of a shortened conversation ends just like an answer.
func (s *opencodeStream) Settled() Settled {
	if s.asleep && !s.many && s.failure == nil {
		return Waiting
	}
	return settledAs(s.overflows < 2 && s.failure != nil && s.failure.name != opencodeOverflow, s.overflows > 1, false)
}

func (s *opencodeStream) event(e event) bool {
	if _, ok := e.text("sessionID"); !ok {
		return false
	}
	kind := e.str("type")
	// A synthetic text is the CLI's own message to the agent after it has summarised the conversation. The run goes on.
	synthetic, _ := e.bool("part.synthetic")
	if synthetic = synthetic && kind == "text"; synthetic || kind == "step_start" {
		s.reason, s.said = "", proc.NewHeadTail(finalHalf)
	}
	switch kind {
	case "step_start", "reasoning":
	case "text":
		if v, ok := e.text("part.text"); ok && !synthetic {
			if s.said.Capture().Bytes > 0 {
				_, _ = s.said.Write([]byte("\n"))
			}
			_, _ = s.said.Write(whole(v, finalText))
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
	default:
		return false
	}
	if kind == "text" || kind == "tool_use" || kind == "step_finish" {
		s.tried, s.asleep = "", false
	}
	s.session = e.str("sessionID")
	return true
}

// opencodeRefusal matches a tool's error if nobody answered the permission question, a rule denied the call, or the
// tool was not offered.
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
		s.unpriced = true // opencode reports the cost 0 for a model without a price
	}
	s.cost += cost
}

func (s *opencodeStream) fail(e event) {
	f := &opencodeFailure{
		name: e.str("error.name"), text: cmp.Or(e.str("error.data.message"), e.str("error.name")), body: e.str("error.data.responseBody"),
		ref: e.str("error.data.ref"), status: int(e.int("error.data.statusCode")), headers: http.Header{},
	}
	f.retryable, _ = e.bool("error.data.isRetryable")
	for v := range e.all("error.data.responseHeaders.*") {
		if v.Type == 's' {
			f.headers.Set(v.Keys[0], strings.TrimSpace(string(v.Raw)))
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
	learned.FinalMessage, learned.Usage, learned.StopReason = captured(s.said, door.JoinCut), s.usage, s.reason
	if s.usage != (Usage{}) && !s.unpriced {
		cost := s.cost
		learned.CostUSD = &cost
	}
	// After the reasons in this list another step follows.
	last := !slices.Contains([]string{"", "tool-calls", "unknown", "error", "content-filter"}, s.reason)
	switch {
	case !s.known:
		learned.Class, learned.ErrorText = s.start(end)
	case s.failure != nil:
		s.failure.learn(&learned, s.causes, end)
	case last && end.Ended == proc.Exited && end.Signal == "":
		learned.Done = true
	case s.tried != "":
		learned.Class, learned.ErrorText = classOf("opencode.tried", s.tried), errorText(s.tried)
	default:
		learned.Class, learned.ErrorText = class.NoResult, errorText(s.refusal)
	}
	return learned
}

// opencodeOverflow is the name of the error of a conversation that is too long. The CLI shortens the conversation and
// goes on.
const opencodeOverflow = "ContextOverflowError"

type opencodeFailure struct {
	name, text, body, ref string
	status                int
	retryable             bool
	headers               http.Header
	at                    time.Time
}

// learn writes the failure into learned.
func (f *opencodeFailure) learn(learned *Learned, causes map[string]string, end proc.Result) {
	learned.StopReason, learned.Class = f.name, f.class()
	text := f.text
	if cause := causes[f.ref]; cause != "" && learned.Class == class.Unknown {
		text, learned.Class = cause, opencodeCause(cause)
	}
	learned.ErrorText = errorText(text)
	learned.limited(f.provider().limit(), resetOf(f.headers, cmp.Or(f.at, end.LastOutput)))
}

// class classifies the failure. Providers use status 400 also for a bad key and 429 also for an account without credit,
// and they send errors in a stream of status 200.
func (f *opencodeFailure) class() class.Class {
	if f.name != "APIError" && f.name != "UnknownError" {
		return cmp.Or(classOf("opencode.error", f.name), class.Unknown)
	}
	p := f.provider()
	found := classOf("provider.word", p.Type+" "+p.code())
	switch {
	case f.status == 400:
		if found == class.None || found == class.Request {
			found = classOf("provider.text", f.text)
		}
		if found == class.Billing || found == class.Auth || found == class.Context {
			return found
		}
	case (f.status == 429 || f.status == 0) && found != class.None:
		return found
	case f.status == 0 && f.name == "APIError" && f.retryable:
		return class.Network
	}
	return statusClass(f.status)
}

// providerError is the error object of most providers. Each provider uses only some of its fields.
type providerError struct {
	Type     string          `json:"type"`
	Code     json.RawMessage `json:"code"`
	Metadata struct {
		LimitName string `json:"limitName"`
	} `json:"metadata"`
}

func (f *opencodeFailure) provider() providerError {
	for _, text := range []string{f.body, f.text} {
		var outer struct {
			Error *providerError `json:"error"`
			providerError
		}
		switch {
		case json.Unmarshal([]byte(text), &outer) != nil:
		case outer.Error == nil:
			return outer.providerError
		default:
			outer.Error.Metadata.LimitName = cmp.Or(outer.Error.Metadata.LimitName, outer.Metadata.LimitName)
			return *outer.Error
		}
	}
	return providerError{}
}

func (e providerError) code() string { return strings.Trim(string(e.Code), `"`) }

// limit returns the provider's name of the window of a limit.
func (e providerError) limit() string {
	for _, w := range []string{e.Type, e.code()} {
		if e.Metadata.LimitName == "" && strings.HasSuffix(w, "UsageLimitError") {
			return w
		}
	}
	return e.Metadata.LimitName
}

var (
	opencodeLogLine  = pattern.Lazy(`^timestamp=\S+ level=ERROR run=\S+ message=(?:"stream error"|failed) `)
	opencodeLogAsk   = pattern.Lazy(`^timestamp=\S+ level=INFO run=\S+ message=stream .*\bsession\.id=(\S{1,64})`)
	opencodeLogRef   = pattern.Lazy(` ref=(\S{1,64}) error=`)
	opencodeLogError = pattern.Lazy(` (?:error\.)?error=("(?:[^"\\]|\\.)*"|\S+)`)
)

// maxCauses bounds the errors that the stream keeps of a log, which may be endless.
const maxCauses = 64

// opencodeLog reports whether a line, or the beginning of one, is of the CLI's log.
func opencodeLog(line string) bool {
	const begin = "timestamp="
	return strings.HasPrefix(line, begin) || strings.HasPrefix(begin, line)
}

// logged reads a line of standard error.
func (s *opencodeStream) logged(line []byte) {
	if m := opencodeLogAsk().FindSubmatch(line); m != nil {
		s.asked = cmp.Or(s.asked, string(m[1]))
		s.asleep, s.many = false, s.many || s.asked != string(m[1])
		return
	}
	m := opencodeLogError().FindSubmatch(line)
	if m == nil || !opencodeLogLine().Match(line) {
		return
	}
	text := string(m[1])
	if plain, err := strconv.Unquote(text); err == nil {
		text = plain
	}
	ref := opencodeLogRef().FindSubmatch(line)
	if ref == nil {
		s.tried, s.asleep = text, s.asked != ""
		s.say(text)
		return
	}
	s.cause = text
	if len(s.causes) < maxCauses {
		s.causes[string(ref[1])] = text
	}
}

var opencodeMeant = pattern.Lazy(`Model not found: [^/\s]+/(\S+)\. Did you mean: ([^?]*)\?`)

// opencodeCause classifies an error of the CLI itself. If the CLI proposes the very model that it did not find, the
// login of its provider is missing.
func opencodeCause(text string) class.Class {
	if m := opencodeMeant().FindStringSubmatch(text); m != nil && slices.Contains(strings.Split(m[2], ", "), m[1]) {
		return class.Auth
	}
	name, _, _ := strings.Cut(text, ":")
	return (&opencodeFailure{name: name}).class()
}

var opencodeNoise = pattern.Lazy(`^timestamp=\S+ level=\S+ run=`)

// start derives the class and the error text of a run without events from standard error.
func (s *opencodeStream) start(end proc.Result) (class.Class, string) {
	said := without(opencodeNoise(), text.Uncoloured(s.stderr()))
	_, line, found := strings.Cut("\n"+said, "\nError: ")
	switch {
	case end.Ended != proc.Exited || end.Signal != "" || end.Code == 0:
		if s.tried != "" {
			return classOf("opencode.tried", s.tried), errorText(s.tried)
		}
	case strings.HasPrefix(said, "opencode run [message..]"):
		return class.Config, "opencode does not take one of its arguments; it printed its help and not which one"
	case found:
		return classOf("opencode.start", line), errorText(line)
	case s.cause != "":
		return opencodeCause(s.cause), errorText(s.cause)
	}
	return class.None, ""
}
