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

// limits of a file of a kind: bytes, and values. What an agent or a human writes is small; what superloop writes itself
// may grow with a long run. Without a cap on the values (0: 4,000,000) a mebibyte of wrong ones would cost seconds to
// describe.
var limits = []struct {
	kind          Kind
	bytes, values int
}{
	{Config, mib, 50_000}, {RepoState, mib, 0}, {Recovery, 64 * kib, 50_000}, {Escalation, mib, 0}, {Event, mib, 0},
	{State, 256 * kib, 0}, {Usage, 256 * kib, 0}, {RunSummary, 64 * mib, 0}, {Approval, 256 * kib, 0}, {TestStatus, 64 * kib, 0},
	{Evidence, 16 * mib, 0}, {RootCause, mib, 0}, {Chain, 4 * mib, 0}, {ChecklistStatus, 64 * kib, 0}, {ValidationStatus, 64 * kib, 0},
	{PrerequisitesStatus, 64 * kib, 0}, {PrerequisitesResults, 4 * mib, 0}, {Scenario, 4 * mib, 200_000},
}

// Kinds lists every kind.
func Kinds() []Kind {
	out := make([]Kind, len(limits))
	for i, l := range limits {
		out[i] = l.kind
	}
	return out
}

// Known reports whether k is one of Kinds.
func (k Kind) Known() bool { return slices.Contains(Kinds(), k) }

// Limit is the size cap of a file (or line) of kind k in bytes.
func (k Kind) Limit() int {
	for _, l := range limits {
		if l.kind == k {
			return l.bytes
		}
	}
	return mib
}

// values is the cap on the number of values in a file of kind k.
func (k Kind) values() int {
	for _, l := range limits {
		if l.kind == k && l.values > 0 {
			return l.values
		}
	}
	return 4_000_000
}

// ID is the $id of the schema of kind k.
func (k Kind) ID() string { return idPrefix + k.file() }

func (k Kind) file() string { return string(k) + ".schema.json" }
