package failures

import "slices"

// Scope says whose failure taught a check. The check stops nothing else. The zero Scope means everybody: the checks that
// superloop always makes, those of the configuration, and those that an operator has added.
type Scope struct {
	Loop string `json:"loop,omitempty"`
	Role string `json:"for_role,omitempty"` // "" for every role of the loop: its tests have failed
	// Runners are the runners that failed. It is empty if the failure was no runner's.
	Runners []string `json:"for_runners,omitempty"`
}

// Learned reports whether superloop has learned the check from a failure.
func (p Prevention) Learned() bool { return p.Scope.Loop != "" }

// Stops reports whether the check may keep a runner from a role of a loop.
func (p Prevention) Stops(loop, role, runner string) bool {
	s := p.Scope
	return s.Loop == "" || s.Loop == loop && (s.Role == "" || s.Role == role) && (len(s.Runners) == 0 || slices.Contains(s.Runners, runner))
}

// OfRunner reports whether the check concerns single runners, so that another runner may do the work meanwhile.
func (p Prevention) OfRunner() bool { return len(p.Scope.Runners) > 0 }

// ScopeOf returns the scope of a check that is learned from the last failure of a role's task: the task's loop and role,
// and the runners that had this failure.
func ScopeOf(t Task, history []Entry) Scope {
	s := Scope{Loop: t.Loop, Role: t.Role}
	for _, e := range history {
		if e.Signature == history[len(history)-1].Signature && e.Agent.Runner != "" {
			s.Runners = append(s.Runners, e.Agent.Runner)
		}
	}
	slices.Sort(s.Runners)
	s.Runners = slices.Compact(s.Runners)
	return s
}

// widen adds the runners of o to s, and reports whether that changed s.
func (s *Scope) widen(o Scope) bool {
	was := len(s.Runners)
	if was == 0 || len(o.Runners) == 0 {
		s.Runners = nil
		return was > 0
	}
	s.Runners = append(slices.Clone(s.Runners), o.Runners...)
	slices.Sort(s.Runners)
	s.Runners = slices.Compact(s.Runners)
	return len(s.Runners) > was
}
