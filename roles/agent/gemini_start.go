package agent

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

// geminiExit classifies by the exit code alone. The CLI has codes of its own
// for what is wrong before the first request; an error of the API it passes to
// exit as the HTTP status, of which the system keeps the low eight bits.
func geminiExit(end proc.Result) class.Class {
	if end.Ended != proc.Exited || end.Signal != "" {
		return class.None
	}
	switch end.Code {
	case 41:
		return class.Auth
	case 42, 44, 52, 55:
		return class.Config
	case 53:
		return class.Turns
	}
	for _, status := range []int{400, 401, 402, 403, 404, 413, 429, 500, 502, 503, 504} {
		if end.Code == status%256 {
			return statusClass(status)
		}
	}
	return class.None
}

// geminiStart explains a run of which no event came: what is wrong with a
// command line, a login or a setting is only on standard error.
func geminiStart(end proc.Result, stderr string) (class.Class, string) {
	if end.Ended != proc.Exited || end.Signal == "" && end.Code == 0 {
		return class.None, ""
	}
	said, usage := geminiSaid(stderr)
	failure := geminiExit(end)
	switch {
	case end.Code == 42 && strings.HasPrefix(said, "Error resuming session:"):
		failure = class.Session
	case end.Code == 1 && usage:
		failure = class.Config
	}
	if failure == class.None {
		return class.None, ""
	}
	return failure, errorText(said)
}

// geminiSaid is standard error without the warnings of every start, as far as
// the help that follows a bad flag; usage: that help is there.
func geminiSaid(stderr string) (said string, usage bool) {
	stderr, _, usage = strings.Cut(text.Uncoloured(stderr), "Usage: gemini [options]")
	lines := slices.DeleteFunc(strings.Split(stderr, "\n"), func(line string) bool {
		return slices.ContainsFunc([]string{"Warning: ", "YOLO mode is enabled", "Ripgrep is not available", "[STARTUP]"},
			func(noise string) bool { return strings.HasPrefix(line, noise) })
	})
	return strings.TrimSpace(strings.Join(lines, "\n")), usage
}

// geminiRetry is the failed attempt after which the CLI is waiting; if it is
// ended meanwhile, that is why it had no result.
type geminiRetry struct {
	class class.Class
	text  string
}

var geminiAttempt = pattern.Lazy(`^Attempt \d+ failed(?: with status (\d{3})|: )`)

// note takes a line of standard error. Without a status the failed attempt was
// one over a quota.
func (r *geminiRetry) note(line []byte) {
	m := geminiAttempt().FindSubmatch(line)
	if m == nil {
		return
	}
	*r = geminiRetry{class: class.Limit, text: string(line)}
	if len(m[1]) > 0 {
		status, _ := strconv.Atoi(string(m[1]))
		r.class = statusClass(status)
	}
}

// eachLine hands on the lines of a text that comes cut anywhere, each at most
// maxLine bytes long. The zero value is ready.
type eachLine struct{ part []byte }

func (e *eachLine) write(p []byte, each func(line []byte)) {
	for {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			e.part = append(e.part, head(p, maxLine-len(e.part))...)
			return
		}
		e.part = append(e.part, head(p[:at], maxLine-len(e.part))...)
		e.end(each)
		p = p[at+1:]
	}
}

// end hands on the last line, which may have no line break.
func (e *eachLine) end(each func(line []byte)) {
	if len(e.part) > 0 {
		each(e.part)
		e.part = e.part[:0]
	}
}
