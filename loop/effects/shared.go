package effects

import "github.com/superloop/superloop/loop"

// LastMessage is where a role's last message of an attempt in the state's iteration lies. The file need not be there.
func (h *Host) LastMessage(s loop.State, role string, attempt int) string {
	return h.RoleFiles(s.Iteration, role, attempt).Last
}
