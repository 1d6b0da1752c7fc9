package agent

import (
	"strconv"
	"strings"
)

// claude is any program whose name begins with "claude". The model is passed
// by --model and thinking by the environment, as the bash original did; the
// output is read as plain text.
type claude struct{}

func (claude) Name() string                { return "claude" }
func (claude) Matches(program string) bool { return strings.HasPrefix(program, "claude") }
func (claude) Stream(req Request) Stream   { return generic{}.Stream(req) }
func (claude) Profile() Profile            { return Profile{} }
func (claude) tokens(level int) (count int) {
	return [...]int{0, 1024, 4096, 10000, 20000, 32000}[level]
}

func (c claude) Command(req Request, environ []string) (Command, error) {
	var env map[string]string
	if level := thinkingLevel(req.Thinking); level >= 0 {
		env = map[string]string{"MAX_THINKING_TOKENS": strconv.Itoa(c.tokens(level))}
	}
	return assemble(req, environ, modelFlag(req), env)
}
