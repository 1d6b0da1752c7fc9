package effects

import (
	"context"
	"fmt"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/gate"
)

// shellSays matches the line with which the shell refuses the text of its own option -c. A script that the command
// runs is refused under its own name.
var shellSays = pattern.Lazy(`(?m)^(?:\S*/)?(?:bash|sh): (?:-c: )?(?:line )?\d*:? ?(?:[Ss]yntax error|unexpected EOF|conditional binary operator|unexpected token)`)

// unreadable says which configured command the shell could not read as a command, and why; "" if it could read all. The
// output alone proves nothing, because what the command runs may print the same, so the shell is asked again.
func unreadable(ctx context.Context, results []gate.CommandResult) string {
	for _, r := range results {
		if !r.Failed() || r.Signal != "" || r.TimedOut || !shellSays().Match(r.Output) {
			continue
		}
		if why := config.Refused(ctx, r.Command); why != "" {
			return fmt.Sprintf("%s: %s", text.Display(text.Cut(r.Command, 200)), why)
		}
	}
	return ""
}
