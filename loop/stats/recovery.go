package stats

// Recovery is what became of the proposals to repair the environment, and of the
// questions to people. A field that an event does not have, or has as another
// type than ours, is not told.
type Recovery struct {
	Proposals
	// BySource says who proposed, ByCategory what was the trouble: the most
	// frequent first, equally frequent ones in the order in which they came.
	BySource   []ProposalGroup `json:"by_source"`
	ByCategory []ProposalGroup `json:"by_category"`
	// Auto are the commands that ran because a rule let them, Approved those that
	// a person did.
	Auto        Executions  `json:"auto"`
	Approved    Executions  `json:"approved"`
	Escalations Escalations `json:"escalations"`
	Remediation Remediation `json:"first_aid"`
}

// Proposals counts proposals by their last verdicts: Proposed is the sum of the
// five below it.
type Proposals struct {
	Proposed int `json:"proposed"`
	ToRun    int `json:"verdict_auto"`
	ToHuman  int `json:"verdict_human"`
	Denied   int `json:"verdict_deny"`
	// Invalid are no proposals by their form, or no commands; Stale ones were
	// about something else and were not judged.
	Invalid int `json:"verdict_invalid"`
	Stale   int `json:"stale"`
	// Fallbacks are those of Proposed that were the second choice of another and
	// were judged because that did not help.
	Fallbacks int `json:"fallbacks"`
	// Executed counts the runs of their commands that began, Verified those after
	// which the tests said that the trouble is gone. A person may have a command
	// run again.
	Executed int `json:"executed"`
	Verified int `json:"verified"`
}

// ProposalGroup is the part of the proposals that has a source or a category in
// common; "" is not told.
type ProposalGroup struct {
	Name string `json:"name"`
	Proposals
}

// Executions is what became of commands that began. Executed is the sum of the
// six from Verified on.
type Executions struct {
	Executed int `json:"executed"`
	// Succeeded counts those that ended with exit code 0, which says nothing of
	// what they mended.
	Succeeded int `json:"succeeded"`
	// Verified, Ineffective and Harmful is what the tests said afterwards, Unknown
	// that they said nothing, or not yet, or that the supervisor ended the command
	// to leave; Failed are commands that did not end well, Open those whose end
	// nobody has recorded.
	Verified    int `json:"verified"`
	Ineffective int `json:"ineffective"`
	Harmful     int `json:"harmful"`
	Unknown     int `json:"unknown"`
	Failed      int `json:"failed"`
	Open        int `json:"open"`
	// SuccessRate is Verified among those of which the outcome is known: Verified,
	// Ineffective, Harmful and Failed. It is nil without any.
	SuccessRate *float64 `json:"success_rate"`
	// DurationMS is the commands' own wall time.
	DurationMS int64 `json:"duration_ms"`
	// ToStart is from the proposal to the command's beginning, ToVerified from the
	// proposal to what the tests said, whatever that was.
	ToStart    Spread `json:"proposal_to_start"`
	ToVerified Spread `json:"proposal_to_verification"`
}

// Escalations are questions to people.
type Escalations struct {
	// Opened is the sum of Resolved, Open and Dropped. Dropped: the run ended, or
	// another began, before anybody answered.
	Opened   int     `json:"opened"`
	Resolved int     `json:"resolved"`
	Open     int     `json:"open"`
	Dropped  int     `json:"dropped"`
	ByType   []Count `json:"by_type"`
	ByMethod []Count `json:"by_method"`
	// Iterations are those that began. ActiveMS is the time between events in which
	// the loop neither waited for a person or a limit nor was without a supervisor.
	Iterations int   `json:"iterations"`
	ActiveMS   int64 `json:"active_ms"`
	// PerIteration and PerActiveHour are Opened by these; nil by nothing.
	PerIteration  *float64 `json:"per_iteration"`
	PerActiveHour *float64 `json:"per_active_hour"`
	// Resolution is from the question to its answer, of the Resolved.
	Resolution Spread `json:"resolution"`
}

// Count is how often something was; "" is not told.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Spread is of Count durations in milliseconds: each value is one that occurred
// (nearest rank); nil without any.
type Spread struct {
	Count    int    `json:"count"`
	MedianMS *int64 `json:"median_ms"`
	P90MS    *int64 `json:"p90_ms"`
	MaxMS    *int64 `json:"max_ms"`
}
