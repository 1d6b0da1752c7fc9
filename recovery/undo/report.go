package undo

// Report says what Restore did with each path.
type Report struct {
	Restored  []string `json:"restored,omitempty"`
	Same      []string `json:"same,omitempty"`      // trees and files that equal the kept ones; never tracked files
	Left      []string `json:"left,omitempty"`      // paths that the command left as they were and somebody changed later
	Created   []string `json:"created,omitempty"`   // paths that did not exist when the set was kept; they stay
	Conflicts []Named  `json:"conflicts,omitempty"` // paths that changed after the command; Restore did not touch them
	Aside     []Named  `json:"aside,omitempty"`     // conflicts that were renamed; Why is the new path
	Failed    []Named  `json:"failed,omitempty"`    // paths that could not be restored
	NotKept   []Named  `json:"not_kept,omitempty"`  // paths that were not kept and so cannot be restored
}

// Complete reports whether Restore met no conflict and no failure.
func (r Report) Complete() bool { return len(r.Conflicts) == 0 && len(r.Failed) == 0 }

// Add adds what the restoring of an older set did. Each path is listed once for each thing that happened to it.
func (r *Report) Add(older Report) {
	add := func(to *[]string, paths []string) {
		seen := make(map[string]bool, len(*to))
		for _, p := range *to {
			seen[p] = true
		}
		for _, p := range paths {
			if !seen[p] {
				*to = append(*to, p)
			}
		}
	}
	add(&r.Restored, older.Restored)
	add(&r.Same, older.Same)
	add(&r.Left, older.Left)
	add(&r.Created, older.Created)
	r.Conflicts = append(r.Conflicts, older.Conflicts...)
	r.Aside = append(r.Aside, older.Aside...)
	r.Failed = append(r.Failed, older.Failed...)
	r.NotKept = append(r.NotKept, older.NotKept...)
}
