package failures

// Who adds a check that nobody has learned: Prevention.AddedBy.
const (
	AddedBySuperloop = "superloop"     // it is always made
	AddedByConfig    = "configuration" // the owner has written it down
)

// leastFreeMB is how much must be free in the repository: below that tests, git and superloop's own journal begin to
// fail half way.
const leastFreeMB = 200

// Builtin are the checks that are made before every iteration, whatever was learned: space and the right to write in
// the directory that is looked at. They are in no Store, so they are never retired.
func Builtin() []Prevention {
	return []Prevention{
		NewCheck(CheckDisk, CheckSpec{Path: ".", FreeMB: leastFreeMB}, "without space tests, git and the journal fail half way", AddedBySuperloop),
		NewCheck(CheckPermission, CheckSpec{Path: ".", Want: "write"}, "no role can do its work where nothing can be written", AddedBySuperloop),
	}
}

// NewCheck is an active check with its ID, the one that Add would give it. It may be one that cannot be looked at: see
// Valid.
func NewCheck(kind CheckKind, spec CheckSpec, reason, by string) Prevention {
	p := Prevention{Kind: kind, Spec: spec, Reason: clip(reason), AddedBy: by}
	p.ID = p.id()
	return p
}
