package effects

import (
	"fmt"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
)

// LastMessage is where a role's last message of an attempt in the state's iteration
// lies. The file need not be there.
func (h *Host) LastMessage(s loop.State, role string, attempt int) string {
	return h.RoleFiles(s.Iteration, role, attempt).Last
}

func (h *Host) promise(s loop.State) (gate.PromiseResult, error) {
	text, err := lastMessage(h, s)
	if err != nil {
		return gate.PromiseResult{}, fmt.Errorf("reading the last message: %w", err)
	}
	return gate.Promise(text, s.Plan.Promise), nil
}
