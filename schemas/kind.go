package schemas

import "slices"

// Kind names a file format; its schema is "<kind>.schema.json".
type Kind string

// The kinds, in the order of Kinds.
const (
	Config               Kind = "config"                // .superloop/config.json
	RepoState            Kind = "repo-state"            // .superloop/state.json
	Recovery             Kind = "recovery"              // loops/<id>/recovery.json, version 1
	Escalation           Kind = "escalation"            // loops/<id>/escalation.json
	Event                Kind = "event"                 // one line of loops/<id>/events.jsonl
	State                Kind = "state"                 // loops/<id>/state.json
	Usage                Kind = "usage"                 // one line of loops/<id>/usage.jsonl
	RunSummary           Kind = "run-summary"           // loops/<id>/run-summary.json
	Approval             Kind = "approval"              // loops/<id>/approval.json
	TestStatus           Kind = "test-status"           // loops/<id>/test-status.json
	Evidence             Kind = "evidence"              // loops/<id>/evidence.json
	RootCause            Kind = "root-cause"            // loops/<id>/root-cause.json
	Chain                Kind = "chain"                 // loops/<id>/chains/<chain-id>.json
	ChecklistStatus      Kind = "checklist-status"      // loops/<id>/checklist-status.json
	ValidationStatus     Kind = "validation-status"     // loops/<id>/validation-status.json
	PrerequisitesStatus  Kind = "prerequisites-status"  // loops/<id>/prerequisites-status.json
	PrerequisitesResults Kind = "prerequisites-results" // loops/<id>/prerequisites-results.json
	Scenario             Kind = "scenario"              // what a scripted agent plays
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// MaxDepth is how deep arrays and objects may be nested in any kind.
const MaxDepth = 100

// Kinds lists every kind.
func Kinds() []Kind {
	return []Kind{Config, RepoState, Recovery, Escalation, Event, State, Usage, RunSummary, Approval,
		TestStatus, Evidence, RootCause, Chain, ChecklistStatus, ValidationStatus, PrerequisitesStatus,
		PrerequisitesResults, Scenario}
}

// Known reports whether k is one of Kinds.
func (k Kind) Known() bool { return slices.Contains(Kinds(), k) }

// Limit is the size cap of a file (or line) of kind k in bytes. What an agent
// or a person writes is small; what superloop writes itself may grow with a
// long run.
func (k Kind) Limit() int {
	switch k {
	case Recovery, TestStatus, ChecklistStatus, ValidationStatus, PrerequisitesStatus:
		return 64 * kib
	case State, Usage, Approval:
		return 256 * kib
	case Config, Event, Escalation, RootCause, RepoState:
		return mib
	case Chain, PrerequisitesResults, Scenario:
		return 4 * mib
	case Evidence:
		return 16 * mib
	case RunSummary:
		return 64 * mib
	}
	return mib
}

// values is the cap on the number of values in a file of kind k. What a person
// or an agent writes has few; without the cap a mebibyte of wrong ones would
// cost seconds to describe.
func (k Kind) values() int {
	switch k {
	case Config, Recovery:
		return 50_000
	case Scenario:
		return 200_000
	}
	return 4_000_000
}

// ID is the $id of the schema of kind k.
func (k Kind) ID() string { return idPrefix + k.file() }

func (k Kind) file() string { return string(k) + ".schema.json" }
