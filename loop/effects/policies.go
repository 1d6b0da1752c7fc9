package effects

import (
	"sync"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
)

// Policies are the policies in force, the strictest verdict counts: that with
// which the iteration began, and a newer one, so that tightening is at once and
// loosening waits for the next iteration. Its methods may be called by several
// goroutines.
type Policies struct {
	*Host

	mu   sync.Mutex
	made map[*config.Config]*recovery.Policy // what was compiled of the present configurations
}

// InForce are the policies, that of the iteration first. There is at least one.
func (p *Policies) InForce() []*recovery.Policy {
	s := p.Settings()
	configs := []*config.Config{s.Config}
	if s.Next != nil && s.Next != s.Config {
		configs = append(configs, s.Next)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	made := map[*config.Config]*recovery.Policy{}
	var out []*recovery.Policy
	for _, c := range configs {
		if made[c] = p.made[c]; made[c] == nil {
			made[c] = p.compile(c)
		}
		out = append(out, made[c])
	}
	p.made = made
	return out
}

// compile makes the policy of a configuration. Whoever loaded the configuration
// has made it before; if it cannot be made all the same, nothing is listed.
func (p *Policies) compile(c *config.Config) *recovery.Policy {
	policy, problems := c.Policy(p.LoopID)
	if len(problems) == 0 && policy != nil {
		return policy
	}
	p.Log.Error("the policy cannot be read; a human is asked", zap.Any("problems", problems))
	policy, _ = recovery.Compile(recovery.Settings{})
	return policy
}
