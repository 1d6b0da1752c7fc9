package server

import (
	"os"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/registry"
)

// Row is a loop of the registry: what is wanted, what the daemon does, and where the loop stands.
type Row struct {
	ID         string          `json:"id" doc:"names the loop in paths of the API"`
	Repo       string          `json:"repo" doc:"the root of its repository"`
	Loop       string          `json:"loop" doc:"its id in the configuration"`
	Machine    string          `json:"machine,omitempty" doc:"the id of its machine; missing: there is one machine only"`
	AsOf       *time.Time      `json:"as_of,omitempty" doc:"its machine is away, and this is what was known then; missing: it is so now"`
	Wanted     registry.Wanted `json:"wanted" enum:"running,paused,stopped,ended,fleet"`
	Phase      string          `json:"phase,omitempty" doc:"what the daemon does: queued, working, waiting, failing or foreign; missing: nothing"`
	Why        string          `json:"why,omitempty" doc:"which places are taken and by whom, or why the loop cannot be supervised"`
	Ahead      int             `json:"ahead,omitempty" doc:"how many requests for a place are served before"`
	Since      *time.Time      `json:"since,omitempty" doc:"since when it waits for a place"`
	Until      *time.Time      `json:"until,omitempty" doc:"when it goes on, at the latest"`
	Priority   int             `json:"priority,omitempty"`
	Labels     []string        `json:"labels,omitempty"`
	Status     loop.Status     `json:"status" doc:"of the loop, as in state.json"`
	Iteration  int             `json:"iteration,omitempty"`
	Role       string          `json:"role,omitempty" doc:"the role that runs"`
	Seq        int64           `json:"seq,omitempty" doc:"the number of the journal's last event"`
	CostUSD    float64         `json:"cost_usd,omitempty"`
	UpdatedAt  *time.Time      `json:"updated_at,omitempty"`
	Supervised bool            `json:"supervised" doc:"a process holds the loop now"`
	Standing
}

// Paths returns the paths of an entry's loop. The error says that its repository is gone.
func Paths(store registry.Store, e registry.Entry) (layout.Paths, error) {
	return layout.NewPaths(e.Repo, e.Loop, filepath.Dir(store.State))
}

// RowOf returns what is known of an entry. view is what the daemon does, the zero View without a daemon.
func RowOf(store registry.Store, e registry.Entry, view View) Row {
	p, gone := Paths(store, e)
	return rowOf(p, gone, e, view)
}

// RowIn is RowOf for who knows the paths of the loop: to find them out costs as much as to read its state.
func RowIn(p layout.Paths, e registry.Entry, view View) Row {
	_, gone := os.Stat(p.Repo)
	return rowOf(p, gone, e, view)
}

func rowOf(p layout.Paths, gone error, e registry.Entry, view View) Row {
	r := Row{ID: e.ID(), Repo: e.Repo, Loop: e.Loop, Machine: e.Machine(), Wanted: e.Wanted, Priority: e.Priority, Labels: e.Labels, Status: loop.Pending}
	if gone == nil {
		_, r.Supervised = local.Supervisor(p)
		v, err := loop.View{}, error(nil)
		if r.Supervised { // its supervisor writes the view behind each event; to read the journal for a moment's sake costs too much
			v, err = local.LastView(p)
		}
		if !r.Supervised || err != nil {
			v, err = local.ReadView(p)
		}
		if err == nil {
			r.Status, r.Iteration, r.Role, r.Seq, r.CostUSD, r.UpdatedAt = v.Status, v.Iteration, v.Role, v.Seq, v.Spent.CostUSD, timeOf(v.UpdatedAt)
			if r.Standing = standingOf(p, v); r.Supervised && r.Status == loop.Running {
				r.held(p, e.Loop, time.Now())
			}
		}
	}
	// The view is a moment old. A loop that nobody holds has left since, unless it fails.
	if now, ok := view.Phase(e.Repo, e.Loop); ok && (r.Supervised || gone != nil || now.Phase == string(failing)) {
		r.Phase, r.Why, r.Ahead, r.Since, r.Until = now.Phase, now.Why, now.Ahead, timeOf(now.Since), timeOf(now.Until)
	}
	if gone != nil {
		r.Why = "the repository is gone"
	}
	return r
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
