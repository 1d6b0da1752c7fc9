package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/superloop/superloop/server/registry"
)

// workedOf returns -1 for each loop that has a place according to the view of the last daemon.
func workedOf(state string) map[string]int {
	last, _ := ReadView(state) // without one nobody had a place
	worked := map[string]int{}
	for _, name := range last.Left {
		worked[name] = -1
	}
	for _, l := range last.Loops { // it was killed
		if l.Phase == string(working) {
			worked[l.Repo+"#"+l.Loop] = -1
		}
	}
	return worked
}

// glance is the last look at the registry.
type glance struct{ stamp, at time.Time }

// lookAgain is the time after which the registry is read even if nothing tells of a change.
const lookAgain = 10 * time.Second

// due reports whether the registry is to be read now. A watch tells of a change each second where there may be none, and
// to read hundreds of files for it was most of what a daemon at rest did.
func (g *glance) due(store registry.Store) bool {
	now := store.Stamp()
	if !now.IsZero() && now.Equal(g.stamp) && time.Since(g.at) < lookAgain {
		return false
	}
	g.stamp, g.at = now, time.Now()
	return true
}

// order sorts entries: first those that the last daemon let work, then by priority, then who was wanted first.
func (d *daemon) order(all []registry.Entry) {
	slices.SortStableFunc(all, func(x, y registry.Entry) int {
		return cmp.Or(cmp.Compare(d.worked[x.Name()], d.worked[y.Name()]), cmp.Compare(y.Priority, x.Priority), x.Since.Compare(y.Since))
	})
}
