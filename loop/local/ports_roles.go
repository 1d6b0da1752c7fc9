package local

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
)

// Bounds of runs of the tests, and of files that all loops share, for as long as what
// uses them is here. They are those of a role.
const (
	logLimit  = 64 << 20
	roleGrace = 15 * time.Second
	storeTime = 2 * time.Second
)

// makeRoles makes the performer of roles, when it is known where the work is done and
// who runs agents.
func (d *driver) makeRoles() {
	d.cleanup = append(d.cleanup, d.runners.Flush)
	d.turns = &effects.Turns{Host: d.host, Runners: d.runners}
	d.snapshots = &effects.Snapshots{Host: d.host}
	d.failures = d.newFailures()
	d.approvals.Whole = d.failures.EnvironmentWhole
	port := rolesPort{d}
	d.roles = &effects.Roles{Host: d.host, Journal: d, Runners: d.runners, Turns: d.turns, Snapshots: d.snapshots,
		Prompts: &effects.Prompts{Host: d.host, Tree: port, Rules: d.policies.InForce}, Tree: port, Proposals: d.recoveries, Failures: d.failures}
}

// rolesPort is what the performer of roles needs of the rest of the driver. The
// performer runs beside watchKill, so each call has the driver's mutex.
type rolesPort struct{ d *driver }

func (p rolesPort) Signature(ctx context.Context, _ loop.State) (string, error) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	return p.d.lookAtTree(ctx)
}

func (p rolesPort) Changed() []string { return p.d.tree.changed }

func (p rolesPort) Branch(ctx context.Context, s loop.State) string {
	t := &p.d.tree
	if t.branchOf != s.Iteration {
		branch, err := p.d.repo.Branch(ctx)
		if err != nil {
			p.d.log.Debug("the work tree is on no branch", zap.Error(err)) // a detached head
		}
		t.branch, t.branchOf = branch, s.Iteration
	}
	return t.branch
}

// tallyRecovery writes the line of usage.jsonl of a recovery that the loop has
// just left.
func (d *driver) tallyRecovery(before loop.State, fact loop.Fact) error {
	return effects.Usage{Host: d.host}.Recovery(before, d.state, fact)
}
