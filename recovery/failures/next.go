package failures

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// outagesTaken is the number of outages that do not count as failures of the task although the provider works for other
// tasks.
const outagesTaken = 3

// Next returns the state and the decision that follow from a failure of the agent that holds the task.
//
//	the work is impossible, or two providers refuse it,
//	or the runner's settings are wrong             -> an operator
//	the same failure for the third time            -> an operator
//	a provider is down or limited, a login missing -> another agent, or wait, or an operator; not counted
//	repaired, lost, the conversation is gone       -> the same agent again; not counted
//	1st counted failure                            -> another agent; as the 2nd when no agent is left
//	2nd                                            -> an analysis of the cause
//	3rd                                            -> an operator
//
// An event that does not fit changes nothing (StepNone): the failure policy has ended, or no agent holds the task.
func Next(s State, e Event, list []Candidate, now time.Time) (State, Decision) {
	if s.Phase != Working {
		return s, Decision{Agent: s.Agent, Why: "nobody holds the task"}
	}
	m := move{s: s.clone(), e: e, list: list, now: now, from: s.Agent}
	m.note()
	m.answer()
	return m.s, m.d
}

// move computes the decision about one input.
type move struct {
	s    State
	e    Event
	list []Candidate
	now  time.Time
	from Agent
	d    Decision
}

// note records the failure in the state. From here on no agent holds the task.
func (m *move) note() {
	s := &m.s
	if s.FirstAt.IsZero() {
		s.FirstAt = m.now
	}
	s.Last, s.LastTier = m.from, 0
	if i := slices.IndexFunc(m.list, func(c Candidate) bool { return c.Agent == m.from }); i >= 0 {
		s.LastTier = m.list[i].Tier
	}
	s.Agent = Agent{}
	if m.e.Waits() {
		if slices.ContainsFunc(m.list, func(c Candidate) bool { return c.Agent == m.from && c.LastSuccess.After(s.FirstAt) }) {
			s.Outages++ // the agent has succeeded since this task failed first, so its provider is not down
		}
		m.e.Counted = m.e.Counted || s.Outages > outagesTaken
	}
	if !m.e.Waits() || m.e.Counted {
		s.Runs++
		if s.Signatures == nil {
			s.Signatures = map[string]int{}
		}
		s.Signatures[m.e.Signature]++
	}
	if m.e.Blame == BlameNobody || m.e.Repaired {
		if s.Chance++; s.Chance > chances && !m.e.Repaired {
			m.e.Counted = true
		}
	} else {
		s.Chance = 0
	}
	if m.e.Kind == KindRefused && !slices.Contains(s.Refused, m.from.provider()) {
		s.Refused = append(s.Refused, m.from.provider())
	}
	if m.e.Counted {
		s.Counted++
		if !slices.Contains(s.Failed, m.from) {
			s.Failed = append(s.Failed, m.from)
		}
	}
	s.tell(told(*s, m.e))
}

func (m *move) answer() {
	s, e := &m.s, m.e
	account := e.Blame == BlameAccount
	settings := e.Blame == BlameSettings
	switch {
	case e.Class == Impossible:
		m.ask(TypeRole, ReasonImpossible, e.Why)
	case len(s.Refused) > 1:
		m.ask(TypeRole, ReasonImpossible, fmt.Sprintf("%d providers refuse the work", len(s.Refused)))
	case e.Kind == KindBudget:
		m.ask(TypeRole, ReasonTooMany, e.Why)
	case settings && !s.Limits.FallOver:
		m.ask(TypeRunner, ReasonMisconfigured, fmt.Sprintf("%s: %s", m.from, e.Why))
	case !e.Waits() && s.Signatures[e.Signature] >= s.Limits.Same:
		m.ask(TypeRole, ReasonSame, fmt.Sprintf("the same failure for the %s time: %s", ordinal(s.Signatures[e.Signature]), e.Why))
	case s.Runs >= s.Limits.Runs:
		m.ask(TypeRole, ReasonTooMany, fmt.Sprintf("%d runs of this task have failed, last: %s", s.Runs, e.Why))
	case s.worked(m.now) >= s.Limits.WallMS:
		m.ask(TypeRole, ReasonTooLong, fmt.Sprintf("the task has failed for %s", time.Duration(s.worked(m.now))*time.Millisecond))
	case e.Counted:
		m.climb()
	case account || settings:
		m.without(m.from)
		reason := ReasonMisconfigured
		if account {
			reason = ReasonAccount
		}
		m.place(StepReassign, reason, e.Why)
		m.d.Alert, m.d.Type = m.d.Step != StepEscalate, TypeRunner
	case e.Waits():
		m.down()
		m.place(StepReassign, ReasonProvider, e.Why)
	default:
		m.again()
	}
}

// climb decides about a failure that counts.
func (m *move) climb() {
	s := &m.s
	switch {
	case s.Counted >= s.Limits.Failures:
		m.ask(TypeRole, ReasonTooOften, fmt.Sprintf("%s, last: %s", failures(s.Counted), m.e.Why))
	case s.Counted > 1:
		m.analyse(ReasonFailed, m.e.Why)
	default:
		// Another agent tries first, whatever the output says: only a second failure shows that the runner is not the cause.
		if c, ok := Choose(m.list, s.Failed, s.LastTier); ok {
			m.give(StepReassign, c.Agent, ReasonFailed, m.e.Why)
			return
		}
		m.analyse(ReasonNobodyLeft, "there is nobody fit to reassign to: "+m.e.Why)
	}
}

// again gives the task to the agent that had it, if that agent is usable. Otherwise place decides.
func (m *move) again() {
	reason := ReasonChance
	if m.e.Repaired {
		reason = ReasonRepaired
	}
	if slices.ContainsFunc(m.list, func(c Candidate) bool { return c.Agent == m.from && c.usable() }) {
		m.give(StepRetry, m.from, reason, m.e.Why)
		return
	}
	m.place(StepReassign, reason, m.e.Why)
}

// down marks the agent whose provider has just failed as unfit, whatever the list says. If every agent of the list
// fails in turn although the list calls it fit, the list is wrong. After two rounds down marks all agents as unfit, so
// that the task waits for a while.
func (m *move) down() {
	m.s.Downs++
	m.list = slices.Clone(m.list)
	for i := range m.list {
		c := &m.list[i]
		if c.Agent != m.from && m.s.Downs <= 2*len(m.list) {
			continue
		}
		at := m.now.Add(restAfterDowns)
		if c.Agent == m.from && m.e.Until.After(m.now) {
			at = m.e.Until
		}
		if c.usable() || c.Agent == m.from && c.Until.Before(at) {
			c.Until = at
		}
		c.Fit, c.Probe = false, false
	}
}

// restAfterDowns is the wait if no other time is known.
const restAfterDowns = 15 * time.Second

// without removes an agent from the list, because the agent cannot do the task, whatever the list says.
func (m *move) without(a Agent) {
	m.list = slices.DeleteFunc(slices.Clone(m.list), func(c Candidate) bool { return c.Agent == a })
}

// place finds an agent that can take the task now. An agent that has failed the task gets it again only after an
// analysis, which has changed the agent's instructions, or when no failure counts: then the one that fails least in the
// role. An agent that a learned check keeps from starting gets it only if nobody else ever will: the check then stops
// the agent, and an operator is asked about the check.
func (m *move) place(step Step, reason, why string) {
	s := &m.s
	if c, ok := Choose(m.list, s.Failed, s.LastTier); ok {
		m.give(step, c.Agent, reason, why)
		return
	}
	if c, ok := leastFailing(m.list, s.Last); ok {
		if s.Analyses > 0 || s.Counted == 0 {
			m.give(step, c.Agent, reason, why)
		} else {
			m.analyse(ReasonNobodyLeft, "nobody else is fit: "+why)
		}
		return
	}
	kept := slices.IndexFunc(m.list, func(c Candidate) bool { return c.Check != "" && (c.Fit || c.Probe) })
	switch at := cmp.Or(soonest(m.list, s.Failed), soonest(m.list, nil)); {
	case at.IsZero() && kept >= 0:
		m.give(step, m.list[kept].Agent, reason, why)
	case at.IsZero():
		m.ask(TypeRunner, ReasonNobodyLeft, "no runner is fit for the task: "+why)
	case s.WaitedMS >= s.Limits.WaitMS:
		m.ask(TypeRunner, ReasonTooLong, fmt.Sprintf("no runner was fit for %s: %s", time.Duration(s.WaitedMS)*time.Millisecond, why))
	default:
		m.wait(at, reason, why)
	}
}

// leastWait is the shortest wait. It prevents a rapid series of attempts when the time of a candidate is already over.
const leastWait = time.Second

func (m *move) wait(at time.Time, reason, why string) {
	s := &m.s
	s.enter(Waiting, m.now)
	s.Downs = 0
	left := time.Duration(s.Limits.WaitMS-s.WaitedMS) * time.Millisecond
	if latest := m.now.Add(left); at.After(latest) {
		at = latest
	}
	if earliest := m.now.Add(leastWait); at.Before(earliest) {
		at = earliest
	}
	s.Until = at
	m.decide(StepWait, Agent{}, reason, why)
	m.d.Until = at
	// An operator expects that a single runner meets a limit. That all of several runners are down is worth an alert.
	if !s.Alerted && len(m.list) > 1 {
		s.Alerted, m.d.Alert, m.d.Type = true, true, TypeRunner
	}
}

func (m *move) give(step Step, a Agent, reason, why string) {
	m.s.enter(Working, m.now)
	m.s.Agent = a
	m.decide(step, a, reason, why)
	m.d.NewSession = a != cmp.Or(m.from, m.s.Last) || m.e.Kind == KindSession || m.e.Kind == KindContext
}

func (m *move) analyse(reason, why string) {
	m.s.enter(Analysing, m.now)
	m.s.Analyses++
	m.s.Until = m.now.Add(time.Duration(m.s.Limits.AnalysisMS) * time.Millisecond)
	m.decide(StepRootCause, Agent{}, reason, why)
	m.d.Until = m.s.Until
}

func (m *move) ask(typ, reason, why string) {
	m.s.enter(WithHuman, m.now)
	m.decide(StepEscalate, Agent{}, reason, why)
	m.d.Type = typ
}

func (m *move) decide(step Step, a Agent, reason, why string) {
	m.s.Reason, m.s.Why = reason, clip(why)
	m.d = Decision{Step: step, Agent: a, From: m.from, Release: m.from != Agent{}, Reason: reason, Why: m.s.Why, Tell: m.s.Tell}
}

func ordinal(n int) string {
	words := [...]string{"0th", "first", "second", "third"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprintf("%dth", n)
}

// failures returns a number of failures in words.
func failures(n int) string {
	words := [...]string{"no", "one", "two", "three", "four", "five", "six"}
	switch {
	case n == 1:
		return "one failure"
	case n < len(words):
		return words[n] + " failures"
	}
	return fmt.Sprintf("%d failures", n)
}

// WaitOver returns the state and the decision after a wait: its time has come, or an agent has become fit earlier. In
// any other phase WaitOver changes nothing.
func WaitOver(s State, list []Candidate, now time.Time) (State, Decision) {
	if s.Phase != Waiting {
		return s, Decision{Agent: s.Agent, Why: "nothing is waited for"}
	}
	m := move{s: s.clone(), list: list, now: now}
	m.s.enter(Waiting, now) // counts the time that the task has waited so far, which place compares with the limit
	m.place(StepResume, ReasonBackAgain, s.Why)
	return m.s, m.d
}

// Analysis is the result of an analysis, in the form that the failure policy uses.
type Analysis struct {
	Summary string `json:"summary"`
	// Instruction tells the next agent what to do about the cause.
	Instruction string `json:"instruction,omitempty"`
	// Person says that certainly only an operator can fix the cause. Why says what the operator has to fix.
	Person bool   `json:"person,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Analysed returns the state and the decision after an analysis. The environment fix that the analysis proposed has run
// before, if the recovery policy permitted it. An empty Analysis stands for an analysis that found nothing, or that
// took too long. An agent that has failed the task may now get it again, if no other agent is fit.
func Analysed(s State, a Analysis, list []Candidate, now time.Time) (State, Decision) {
	if s.Phase != Analysing {
		return s, Decision{Agent: s.Agent, Why: "no analysis is awaited"}
	}
	m := move{s: s.clone(), list: list, now: now}
	if a.Summary != "" {
		m.s.tell("cause found: " + a.Summary)
	}
	if a.Instruction != "" {
		m.s.tell("to do about it: " + a.Instruction)
	}
	switch {
	case a.Person:
		m.ask(TypeRole, ReasonAnalysed, a.Why)
	case m.s.worked(now) >= m.s.Limits.WallMS:
		m.ask(TypeRole, ReasonTooLong, fmt.Sprintf("the task has failed for %s", time.Duration(m.s.worked(now))*time.Millisecond))
	default:
		m.place(StepResume, ReasonAnalysed, s.Why)
		m.d.NewSession = m.d.Step == StepResume // the conversation that failed twice does not help the next agent
	}
	return m.s, m.d
}

// Answered returns the state and the decision after an operator's answer. The failure policy starts again, and keeps
// the lines of Tell and adds the operator's note.
func Answered(s State, note string, list []Candidate, now time.Time) (State, Decision) {
	if s.Phase != WithHuman {
		return s, Decision{Agent: s.Agent, Why: "no operator was asked"}
	}
	fresh := New(s.Task, Agent{}, s.Limits, now)
	fresh.Tell, fresh.Last, fresh.LastTier = s.clone().Tell, s.Last, s.LastTier
	fresh.FirstAt = now
	if note != "" {
		fresh.tell("an operator says: " + note)
	}
	m := move{s: fresh, list: list, now: now}
	m.place(StepResume, ReasonAnswered, s.Why)
	return m.s, m.d
}

// Mended subtracts n from the number of counted failures, because a command that repairs their cause in the environment
// ran since. n is the result of History.Repair for the signature. Failed stays, so that a fresh agent shows whether the
// cause is gone.
func Mended(s State, signature string, n int) State {
	if s.Phase.Ended() || n <= 0 {
		return s
	}
	s = s.clone()
	s.Counted = max(0, s.Counted-n)
	return s
}
