package escalation

import (
	"slices"

	"github.com/superloop/superloop/recovery"
)

// Hit is a pattern of require_human that fits a command.
type Hit struct {
	Pattern string `json:"pattern"`
	// Part is the part of the command that it fits; "" is the whole.
	Part string `json:"part,omitempty"`
}

// Near is the entry of auto_approve that is most like a command.
type Near struct {
	Entry int    `json:"entry"` // its place
	Text  string `json:"text"`
}

// Judge notes down what a policy says of the command, for the person who decides:
// the patterns that fit it and the nearest entry, and the policy's digest. It
// decides nothing.
func (c *Command) Judge(p *recovery.Policy) {
	c.Hits, c.Near, c.PolicyDigest = nil, nil, ""
	if p == nil {
		return
	}
	text := string(c.Text)
	c.PolicyDigest = p.Digest
	if near, ok := p.Nearest(text); ok {
		c.Near = &Near{Entry: near.Entry, Text: near.Text}
	}
	seen := map[string]bool{}
	for _, pattern := range p.Settings.RequireHuman {
		if seen[pattern] || len(c.Hits) == maxList {
			continue
		}
		seen[pattern] = true
		if part, fits := fits(pattern, text); fits {
			c.Hits = append(c.Hits, Hit{Pattern: pattern, Part: part})
		}
	}
	// What names a part tells more than "*".
	slices.SortStableFunc(c.Hits, func(a, b Hit) int { return rank(a) - rank(b) })
}

func rank(h Hit) int {
	if h.Part == "" {
		return 1
	}
	return 0
}

// fits asks recovery whether a pattern fits, by a policy that has only that.
func fits(pattern, text string) (part string, ok bool) {
	s := recovery.Defaults()
	s.AutoApprove, s.RequireHuman, s.OnUnknown = nil, []string{pattern}, recovery.UnknownDeny
	p, problems := recovery.Compile(s)
	if len(problems) > 0 {
		return "", false
	}
	v := recovery.Decide(p, recovery.Command{Text: text}, recovery.Facts{})
	if v.Rule != recovery.RuleHuman {
		return "", false
	}
	if v.Part == text {
		return "", true
	}
	return v.Part, true
}
