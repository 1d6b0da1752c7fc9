package agent

import (
	"encoding/json"
	"strings"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

var straight = strings.NewReplacer("\u2018", "'", "\u2019", "'", "\u02bc", "'", "\u201c", `"`, "\u201d", `"`, "`", "'")

// codexClass is never given anything but the CLI's own words on a failure.
func codexClass(said string) class.Class {
	if said == "" {
		return class.None
	}
	plain := strings.ToLower(straight.Replace(text.Line(said, len(said))))
	if found := classOf("codex.text", plain); found != class.None {
		return found
	}
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal([]byte(said), &body) == nil && len(body.Error) > 0 {
		return class.Request // the answer to a request, as it came
	}
	return class.Unknown
}

// codexStart explains a run that ended badly before its first turn did anything.
func codexStart(stderr string, end proc.Result) (class.Class, string) {
	said := codexErrors(stderr)
	if found := classOf("codex.start", said); failed(end) && found != class.None {
		return found, errorText(said)
	}
	return class.None, ""
}

// codexErrors is standard error without what comes with every start.
func codexErrors(stderr string) string {
	var b strings.Builder
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "WARNING: ") && !strings.HasPrefix(line, "Reading ") {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}
