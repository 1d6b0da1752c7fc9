package agent

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

// opencodeOverflow is the error of a conversation that is too long; the CLI
// shortens it and goes on.
const opencodeOverflow = "ContextOverflowError"

// opencodeFailure is an error event.
type opencodeFailure struct {
	name, text, body, ref string
	status                int
	retryable             bool
	headers               map[string]string
	at                    time.Time
}

// learn puts the failure into what is learned of the run.
func (f *opencodeFailure) learn(learned *Learned, log opencodeLog, end proc.Result) {
	learned.StopReason, learned.Class = f.name, f.class()
	text := f.text
	if cause := log.causes[f.ref]; cause != "" && learned.Class == class.Unknown {
		text, learned.Class = cause, opencodeCause(cause)
	}
	learned.ErrorText = errorText(text)
	learned.limited(f.provider().limit(), resetOf(f.headers, cmp.Or(f.at, end.LastOutput)))
}

func (f *opencodeFailure) class() class.Class {
	if f.name == "APIError" || f.name == "UnknownError" {
		return f.apiClass()
	}
	return cmp.Or(classOf("opencode.error", f.name), class.Unknown)
}

// apiClass: the status says most, but providers use 400 for a bad key, 429 for
// an empty account, and put an error into a stream that has the status 200.
func (f *opencodeFailure) apiClass() class.Class {
	found := f.provider().class()
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

// providerError is the error object of most providers, whichever of its fields
// they use.
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

func (e providerError) class() class.Class { return classOf("provider.word", e.Type+" "+e.code()) }

// limit is the provider's word for the window of a limit.
func (e providerError) limit() string {
	for _, w := range []string{e.Type, e.code()} {
		if e.Metadata.LimitName == "" && strings.HasSuffix(w, "UsageLimitError") {
			return w
		}
	}
	return e.Metadata.LimitName
}

// opencodeLog is what the CLI's log on standard error told.
type opencodeLog struct {
	// causes are the errors behind "check server logs for details", by the
	// reference that the event has, and last is the latest of them.
	causes map[string]string
	last   string
	// tried is the request that failed last, while no later one has succeeded.
	tried string
}

var (
	opencodeLogLine  = pattern.Lazy(`^timestamp=\S+ level=ERROR run=\S+ message=(?:"stream error"|failed) `)
	opencodeLogRef   = pattern.Lazy(` ref=(\S{1,64}) error=`)
	opencodeLogError = pattern.Lazy(` (?:error\.)?error=("(?:[^"\\]|\\.)*"|\S+)`)
)

// maxCauses bounds what is kept of a log that does not end.
const maxCauses = 64

// logged takes a line of standard error.
func (s *opencodeStream) logged(line []byte) {
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
		s.log.tried = text
		s.say(text)
		return
	}
	s.log.last = text
	if len(s.log.causes) < maxCauses {
		s.log.causes[string(ref[1])] = text
	}
}

var opencodeMeant = pattern.Lazy(`Model not found: [^/\s]+/(\S+)\. Did you mean: ([^?]*)\?`)

// opencodeCause classifies an error of the CLI's own. A model that it calls not
// found and proposes in the same breath is one of a provider without a key.
func opencodeCause(text string) class.Class {
	if m := opencodeMeant().FindStringSubmatch(text); m != nil && slices.Contains(strings.Split(m[2], ", "), m[1]) {
		return class.Auth
	}
	name, _, _ := strings.Cut(text, ":")
	return (&opencodeFailure{name: name}).class()
}

// opencodeStart explains a run of which no event came: what is wrong with a
// command line or a setting is only on standard error.
func opencodeStart(end proc.Result, stderr string, log opencodeLog) (class.Class, string) {
	said := strings.TrimSpace(text.Uncoloured(stderr))
	_, line, found := strings.Cut("\n"+said, "\nError: ")
	switch {
	case end.Ended != proc.Exited || end.Signal != "" || end.Code == 0:
		if log.tried != "" {
			return classOf("opencode.tried", log.tried), errorText(log.tried)
		}
	case strings.HasPrefix(said, "opencode run [message..]"):
		return class.Config, "opencode does not take one of its arguments; it printed its help and not which one"
	case found:
		return classOf("opencode.start", line), errorText(line)
	case log.last != "":
		return opencodeCause(log.last), errorText(log.last)
	}
	return class.None, ""
}
