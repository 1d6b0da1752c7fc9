package escalation

import (
	"slices"

	"github.com/superloop/superloop/recovery"
)

// Hit is a pattern of require_human that fits a command.
type Hit struct {
	Pattern string `json:"pattern"`
	Part    string `json:"part,omitempty"` // of the command; "" is all of it
}

// Near is the entry of auto_approve that is most like a command.
type Near struct {
	Entry int    `json:"entry"` // its place
	Text  string `json:"text"`
}

// Judge records what a policy says of the command, for the operator who decides:
// the patterns that fit it and the nearest entry, and the policy's digest. It
// decides nothing.
func (c *Command) Judge(p *recovery.Policy) {
	c.Hits, c.Near, c.PolicyDigest = nil, nil, ""
	if p == nil {
		return
	}
	command := string(c.Text)
	c.PolicyDigest = p.Digest
	if near, ok := p.Nearest(command); ok {
		c.Near = &Near{Entry: near.Entry, Text: near.Text}
	}
	var whole []Hit // a pattern that names a part tells more than "*", so these come last
	for i, pattern := range p.Settings.RequireHuman {
		if slices.Contains(p.Settings.RequireHuman[:i], pattern) || len(c.Hits)+len(whole) == maxList {
			continue
		}
		switch part, fits := fits(pattern, command); {
		case fits && (part == command || part == ""):
			whole = append(whole, Hit{Pattern: pattern})
		case fits:
			c.Hits = append(c.Hits, Hit{pattern, part})
		}
	}
	c.Hits = append(c.Hits, whole...)
}

// fits asks recovery whether a pattern fits, by a policy that has only that.
func fits(pattern, command string) (part string, ok bool) {
	s := recovery.Defaults()
	s.AutoApprove, s.RequireHuman, s.OnUnknown = nil, []string{pattern}, recovery.UnknownDeny
	p, problems := recovery.Compile(s)
	if len(problems) > 0 {
		return "", false
	}
	v := recovery.Decide(p, recovery.Command{Text: command}, recovery.Facts{})
	return v.Part, v.Rule == recovery.RuleHuman
}
