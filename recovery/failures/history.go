package failures

import (
	"slices"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// These constants bound a History, and name the outcomes of an Entry.
const (
	MaxTasks   = 20  // Add drops the task that failed least recently
	MaxEntries = 12  // entries of one task; Add drops the oldest
	maxWhy     = 300 // characters of a sentence

	Open     = ""         // the outcome is not known yet
	Repaired = "repaired" // the environment was repaired; the failure no longer counts
	Solved   = "solved"   // the task succeeded after the response
	Again    = "again"    // the task failed again after the response
	GivenUp  = "given_up" // superloop asked an operator
)

// Entry is one failure of a task and the response to it.
type Entry struct {
	At        time.Time `json:"at"`
	Agent     Agent     `json:"agent"`
	RunID     string    `json:"run_id,omitempty"`
	Iteration int       `json:"iteration,omitempty"`
	Kind      Kind      `json:"kind"`
	Class     string    `json:"class"`
	Category  string    `json:"category"`
	Handler   string    `json:"handler,omitempty"`
	Weak      bool      `json:"weak,omitempty"`
	Blame     Blame     `json:"blame"`
	Signature string    `json:"signature"`
	Counted   bool      `json:"counted"`
	Why       string    `json:"why,omitempty"`
	Response  Step      `json:"response,omitempty"`
	Outcome   string    `json:"outcome,omitempty"`
}

// TaskHistory holds the failures of one task, oldest first.
type TaskHistory struct {
	Task    Task    `json:"task"`
	Entries []Entry `json:"entries"`
	Dropped int     `json:"dropped,omitempty"` // Dropped counts the entries that Add has dropped
}

// History holds recent failures, by task. The task that failed last is the last.
type History struct {
	Tasks []TaskHistory `json:"tasks,omitempty"`
}

// Clone returns a copy that shares no mutable data with h.
func (h History) Clone() History {
	out := History{Tasks: slices.Clone(h.Tasks)}
	for i := range out.Tasks {
		out.Tasks[i].Entries = slices.Clone(out.Tasks[i].Entries)
	}
	return out
}

// Of returns the entries of a task, oldest first. The caller must not change them.
func (h History) Of(t Task) []Entry {
	if i := h.index(t); i >= 0 {
		return h.Tasks[i].Entries
	}
	return nil
}

func (h History) index(t Task) int {
	return slices.IndexFunc(h.Tasks, func(x TaskHistory) bool { return x.Task == t })
}

// Add records a failure and the response to it. If the previous entry of the task has no outcome yet, Add sets it to
// Again.
func (h *History) Add(e Event, response Step) {
	th := TaskHistory{Task: e.Task}
	if i := h.index(e.Task); i >= 0 {
		th = h.Tasks[i]
		h.Tasks = slices.Delete(h.Tasks, i, i+1)
	}
	if n := len(th.Entries); n > 0 && th.Entries[n-1].Outcome == Open {
		th.Entries[n-1].Outcome = Again
	}
	entry := Entry{At: e.At, Agent: e.Agent, RunID: e.RunID, Iteration: e.Iteration, Kind: e.Kind, Class: e.Class, Category: e.Category,
		Handler: e.Handler, Weak: e.Weak, Blame: e.Blame, Signature: e.Signature, Counted: e.Counted, Why: clip(e.Why), Response: response}
	if e.Repaired {
		entry.Outcome = Repaired
	}
	if response == StepEscalate {
		entry.Outcome = GivenUp
	}
	th.Entries = append(th.Entries, entry)
	if over := len(th.Entries) - MaxEntries; over > 0 {
		th.Entries = slices.Delete(th.Entries, 0, over)
		th.Dropped += over
	}
	h.Tasks = append(h.Tasks, th)
	h.Tasks = slices.Delete(h.Tasks, 0, max(0, len(h.Tasks)-MaxTasks))
}

// Succeeded records that a task succeeded: the last response to its failure has helped.
func (h *History) Succeeded(t Task) {
	if i := h.index(t); i >= 0 {
		es := h.Tasks[i].Entries
		if n := len(es); n > 0 && es[n-1].Outcome == Open {
			es[n-1].Outcome = Solved
		}
	}
}

// Repair records that the environment was repaired of the fault behind a signature. The task's entries with this
// signature no longer count. Repair returns their number.
func (h *History) Repair(t Task, signature string) int {
	i, n := h.index(t), 0
	if i < 0 {
		return 0
	}
	for k := range h.Tasks[i].Entries {
		e := &h.Tasks[i].Entries[k]
		if e.Signature == signature && e.Counted {
			e.Counted, e.Outcome = false, Repaired
			n++
		}
	}
	return n
}

func count(es []Entry, of func(Entry) bool) (n int) {
	for _, e := range es {
		if of(e) {
			n++
		}
	}
	return n
}

// clip makes foreign text fit for a record.
func clip(s string) string { return text.Line(s, maxWhy) }
