package undo

// verdict is what Restore does with one path.
type verdict int

const (
	asKept    verdict = iota // it is as it was kept
	notOurs                  // the command did not change it: whatever it is now is somebody else's work
	put                      // nothing is there: what was kept is put there
	replace                  // it is as the command left it: what was kept takes its place
	aside                    // it changed since: it is moved beside first
	refused                  // it changed since
	isCreated                // nothing was there before
)

// facts are what the verdict depends on.
type facts struct {
	wasAbsent bool // nothing was there when the set was kept
	sealed    bool // what the command left is known
	untouched bool // the command left it as it was kept
	nowAbsent bool
	nowKept   bool // it is as it was kept
	nowLeft   bool // it is as the command left it
	force     bool
}

// judge decides. Nothing but what the command itself left is ever replaced.
func judge(f facts) verdict {
	switch {
	case f.nowKept, f.wasAbsent && f.nowAbsent:
		return asKept
	case f.wasAbsent:
		return isCreated
	case f.sealed && f.untouched:
		return notOurs
	case f.nowAbsent:
		return put
	case f.sealed && f.nowLeft:
		return replace
	case f.force:
		return aside
	}
	return refused
}
