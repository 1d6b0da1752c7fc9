package local

import (
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/respond"
	"go.uber.org/zap"
)

// newFailures makes the performer of what has to do with failures.
func (d *driver) newFailures() *effects.Failures {
	ports := failurePorts{d}
	return &effects.Failures{Host: d.host, Journal: d, Rules: effects.NewRules(d.life, d.repo.Top, cage.Secrets(d.host.Env())),
		Remedies: ports, Roles: ports, Agents: d.turns, Cooldowns: d.runners.Cooldowns,
		Processes: effects.ProcessTable{Dir: "/proc", Sweep: proc.Sweep}}
}

// failurePorts is what the other performers do for effects.Failures.
type failurePorts struct{ d *driver }

// Policy is the policy with which the iteration began.
func (p failurePorts) Policy() *recovery.Policy { return p.d.policies.InForce()[0] }

// Candidates are all who may do a role.
func (p failurePorts) Candidates(s loop.State, role string) []respond.Candidate {
	return p.d.runners.Candidates(s, role)
}

// LogFile is the log of an attempt.
func (p failurePorts) LogFile(s loop.State, role string, attempt int) string {
	return p.d.host.RoleFiles(s.Iteration, role, attempt).Log
}

// Environment is that of the last success, and that of now.
func (p failurePorts) Environment(s loop.State) (was, now respond.Snapshot) {
	was, err := p.d.snapshots.Store().Load()
	if err != nil {
		p.d.log.Warn("the environment of the last success cannot be read", zap.Error(err))
	}
	return was, p.d.snapshots.Current(s)
}

// Score orders options by what has helped here before.
func (p failurePorts) Score(signature string) func(option string) float64 {
	return p.d.executor.Score(signature)
}
