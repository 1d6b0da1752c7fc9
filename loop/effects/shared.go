package effects

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
)

// lastMessage is what the promise role said at the end of its newest attempt in
// this iteration; "" when it said nothing.
func (h *Host) lastMessage(s loop.State) (string, error) {
	role := s.Plan.PromiseRole()
	r, ok := s.Roles[role]
	if !ok {
		return "", nil
	}
	text, _, err := roles.ReadRegular(h.RoleFiles(s.Iteration, role, r.Attempt).Last, agent.MaxMessage/2, agent.MaxMessage/2)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, roles.ErrNotRegular) {
		return "", nil
	}
	return text, err
}

func (h *Host) promise(s loop.State) (gate.PromiseResult, error) {
	text, err := h.lastMessage(s)
	if err != nil {
		return gate.PromiseResult{}, fmt.Errorf("reading the last message: %w", err)
	}
	return gate.Promise(text, s.Plan.Promise), nil
}
