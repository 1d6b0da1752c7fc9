// Package failures decides what follows when a role has failed: who goes on with the task, when the cause is looked
// for, and when an operator is asked.
//
//	RoleOutcome -- Detect --> Event -- Next --> Decision
//	                            |                  |
//	                            |                  +-- retry, reassign: another runner has the task
//	                            |                  +-- wait: nobody can take it before Until
//	                            |                  +-- root_cause: Analyse, then Analysed
//	                            |                  +-- escalate: the end; an operator has it
//	                            +--> History (why), Health (who is fit), Watch (is it more than one task)
//
// A failure is classified first, by facts and by the class that an adapter gave it, never by what somebody wrote. Only
// what can be the fault of whoever did the task goes through the failure policy; a provider that is down is waited for,
// work that cannot be done is not tried again.
//
// The failure policy, the history, the breakers, the triggers, the checks and the snapshots are plain values that are
// written down as JSON. This package has no clock, does no I/O and imports nothing of ours: time and facts come in.
// Package preflight looks at the system, and keeps values in files.
package failures
