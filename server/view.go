package server

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/slots"
)

// View is what the daemon does now, in a file that other processes read. It is written a moment after each change.
type View struct {
	PID    int          `json:"pid"`
	At     time.Time    `json:"at"`
	Limits slots.Limits `json:"limits"`
	Loops  []LoopView   `json:"loops"`
	// Left names the loops that had a place and have left because the daemon ends. They go on first.
	Left []string `json:"left,omitempty"`
}

// LoopView is one supervised loop.
type LoopView struct {
	Repo     string    `json:"repo"`
	Loop     string    `json:"loop"`
	Phase    string    `json:"phase"` // queued, working, waiting, failing or foreign
	Priority int       `json:"priority,omitempty"`
	Ahead    int       `json:"ahead,omitempty"` // how many requests for a place are served before this loop's
	Why      string    `json:"why,omitempty"`   // which places are taken and by whom, or why it cannot be supervised
	Since    time.Time `json:"since,omitzero"`  // since when it waits for a place
	Until    time.Time `json:"until,omitzero"`  // when it goes on at the latest: the end of a limit, a reminder, the next try
}

// viewPause is the time between two writes of the view.
const viewPause = 200 * time.Millisecond

// maxView bounds the file, in bytes.
const maxView = 64 << 20

// ViewFile is the file of the view.
func ViewFile(state string) string { return filepath.Join(state, "daemon", "state.json") }

// ReadView reads the view of the daemon on this state. Without a daemon it is what the last one did.
func ReadView(state string) (v View, err error) {
	data, err := door.Read(ViewFile(state), maxView)
	if err == nil {
		err = text.Decode(data, &v)
	}
	return v, err
}

// Phase returns what the daemon does with a loop. ok is false if it does not supervise it.
func (v View) Phase(repo, loop string) (l LoopView, ok bool) {
	for _, l := range v.Loops {
		if l.Repo == repo && l.Loop == loop {
			return l, true
		}
	}
	return l, false
}

// touch says that something has changed.
func (d *daemon) touch() {
	d.view.Put(func() ([]byte, error) {
		data, err := json.Marshal(d.show())
		return append(data, '\n'), err
	})
}

// show returns the view.
func (d *daemon) show() View {
	waiting := map[string]slots.Waiter{}
	for _, w := range d.slots.Waiting() {
		waiting[w.Loop] = w
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := View{PID: os.Getpid(), At: time.Now().UTC(), Limits: d.o.Limits, Loops: []LoopView{}, Left: slices.Clone(d.left)}
	for _, name := range d.names() {
		s := d.loops[name]
		l := LoopView{Repo: s.entry.Repo, Loop: s.entry.Loop, Phase: string(s.now), Priority: s.entry.Priority, Why: s.err, Until: s.until}
		if w, ok := waiting[name]; ok { // also a working loop whose role waits for a place
			l.Phase, l.Ahead, l.Why, l.Since = string(queued), w.Ahead, w.Why, w.Since.UTC()
		}
		v.Loops = append(v.Loops, l)
	}
	return v
}

// names returns the supervised loops in order. The caller holds d.mu.
func (d *daemon) names() []string { return slices.Sorted(maps.Keys(d.loops)) }
