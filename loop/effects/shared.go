package effects

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
)

// rootCauseFile is what an analysis came to, for people and for the next role.
const rootCauseFile = "root-cause.json"

// roleFiles are the files of one attempt.
type roleFiles struct{ prompt, log, last string }

func (h *Host) roleFiles(s loop.State, role string, attempt int) roleFiles {
	base := filepath.Join(h.Paths.Logs(s.Iteration), role)
	if attempt > 1 {
		base = fmt.Sprintf("%s.attempt-%d", base, attempt)
	}
	return roleFiles{prompt: base + ".prompt.md", log: base + ".log", last: base + ".last-message.md"}
}

// lastMessage is what the promise role said at the end of its newest attempt in
// this iteration; "" when it said nothing.
func (h *Host) lastMessage(s loop.State) (string, error) {
	role := s.Plan.PromiseRole()
	r, ok := s.Roles[role]
	if !ok {
		return "", nil
	}
	text, _, err := roles.ReadRegular(h.roleFiles(s, role, r.Attempt).last, agent.MaxMessage/2, agent.MaxMessage/2)
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

func namedGates(g loop.Gates) [][2]string {
	var out [][2]string
	for _, x := range [][2]string{{"promise", g.Promise}, {"tests", g.Tests}, {"validation", g.Validation},
		{"prerequisites", g.Prerequisites}, {"checklist", g.Checklist}, {"evidence", g.Evidence}, {"approval", g.Approval}} {
		if x[1] != "" {
			out = append(out, x)
		}
	}
	return out
}
