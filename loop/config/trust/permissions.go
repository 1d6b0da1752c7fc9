package trust

import (
	"cmp"

	"github.com/superloop/superloop/recovery/permit"
)

// permissionsOf returns the pinned part of a section, without the values that are defaults.
func permissionsOf(s permit.Settings) Permissions {
	out := Permissions{Mode: unless(s.Mode, permit.Off), OnUnknown: unless(s.OnUnknown, permit.UnknownEscalate),
		AutoApprove: orNone(s.AutoApprove), Programs: orNone(s.Programs), Deny: orNone(s.Deny), RequireHuman: orNone(s.RequireHuman), Hosts: orNone(s.Hosts), Tools: orNone(s.Tools)}
	out.Paths = permit.Paths{Deny: orNone(s.Paths.Deny), Secret: orNone(s.Paths.Secret)}
	return out
}

// over returns the section s with the pinned values of p.
func (p Permissions) over(s permit.Settings) permit.Settings {
	s.Mode, s.OnUnknown = cmp.Or(p.Mode, permit.Off), cmp.Or(p.OnUnknown, permit.UnknownEscalate)
	s.AutoApprove, s.Programs, s.Deny, s.RequireHuman = orNone(p.AutoApprove), orNone(p.Programs), orNone(p.Deny), orNone(p.RequireHuman)
	s.Paths = permit.Paths{Deny: orNone(p.Paths.Deny), Secret: orNone(p.Paths.Secret)}
	s.Hosts, s.Tools = orNone(p.Hosts), orNone(p.Tools)
	return s
}

// permissions compares what agents may do while they work.
func (j *joiner) permissions(at string, p, n Permissions) Permissions {
	var in Permissions
	for _, k := range []struct {
		key                string
		p, n               string
		in                 *string
		order              order
		less, more, absent string
	}{
		{"mode", p.Mode, n.Mode, &in.Mode, ranked(permit.Enforce, permit.Observe, permit.Off), "agents are asked about more of what they do", "agents would be asked about less of what they do", permit.Off},
		{"on_unknown", p.OnUnknown, n.OnUnknown, &in.OnUnknown, ranked(permit.UnknownDeny, permit.UnknownEscalate), "what nothing grants is refused", "an operator could allow what nothing grants", permit.UnknownEscalate},
	} {
		v, _ := j.value(at+"/"+k.key, k.order, cmp.Or(k.p, k.absent), cmp.Or(k.n, k.absent), k.less, k.more).(string)
		*k.in = unless(v, k.absent)
	}
	const lessRuns, moreRuns = "agents can do it no longer without a question", "agents could do it without a question"
	for _, k := range []struct {
		key        string
		p, n       []string
		in         *[]string
		of         func(both, gone, came []string) *verdict
		less, more string
	}{
		{"auto_approve", p.AutoApprove, n.AutoApprove, &in.AutoApprove, fewer, lessRuns, moreRuns},
		{"auto_approve_programs", p.Programs, n.Programs, &in.Programs, fewer, lessRuns, moreRuns},
		{"hosts", p.Hosts, n.Hosts, &in.Hosts, fewer, lessRuns, moreRuns},
		{"tools", p.Tools, n.Tools, &in.Tools, fewer, lessRuns, moreRuns},
		{"deny", p.Deny, n.Deny, &in.Deny, more, "agents are refused it", "agents would be refused it no longer"},
		{"require_human", p.RequireHuman, n.RequireHuman, &in.RequireHuman, more, "an operator is asked about it", "no operator would be asked about it"},
		{"paths/deny", p.Paths.Deny, n.Paths.Deny, &in.Paths.Deny, more, "agents can no longer write there", "agents could write there"},
		{"paths/secret", p.Paths.Secret, n.Paths.Secret, &in.Paths.Secret, more, "agents can no longer read there", "agents could read there"},
	} {
		list, _ := stringsOf(j.value(at+"/"+k.key, sets(k.of), anys(k.p), anys(k.n), k.less, k.more))
		*k.in = orNone(list)
	}
	return in
}
