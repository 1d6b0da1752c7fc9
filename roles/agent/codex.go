package agent

import "strings"

// codex is any program whose name begins with "codex". Thinking and the model
// are passed as flags, as the bash original did; the output is read as plain
// text.
type codex struct{}

func (codex) Name() string                { return "codex" }
func (codex) Matches(program string) bool { return strings.HasPrefix(program, "codex") }
func (codex) Stream(req Request) Stream   { return generic{}.Stream(req) }
func (codex) Profile() Profile            { return Profile{} }
func (codex) effort(level int) string {
	return [...]string{"none", "minimal", "low", "medium", "high", "xhigh"}[level]
}

func (c codex) Command(req Request, environ []string) (Command, error) {
	var flags []string
	if level := thinkingLevel(req.Thinking); level >= 0 {
		flags = append(flags, "-c", `model_reasoning_effort="`+c.effort(level)+`"`)
	}
	return assemble(req, environ, append(flags, modelFlag(req)...), nil)
}
