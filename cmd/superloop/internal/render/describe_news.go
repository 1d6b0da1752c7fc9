package render

import (
	"encoding/json"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
)

// describeNews says what came of telling people, and of the record that they
// answer.
func describeNews(ev journal.Event) string {
	var f struct {
		Notifier string `json:"notifier"`
		Kind     string `json:"kind"`
		Reason   string `json:"reason"`
		Final    bool   `json:"final"`
		Error    string `json:"error"`
	}
	// A field of another type than ours leaves the rest readable.
	_ = json.Unmarshal(ev.Fields, &f)
	what := strings.ReplaceAll(strings.TrimPrefix(f.Kind, "escalation_"), "_", " ")
	switch ev.Event {
	case "notification_sent":
		return "told by " + text.Display(f.Notifier) + " (" + what + ")"
	case "notification_failed":
		s := text.Display(f.Notifier) + " did not take it (" + what + "): " + Cut(text.Display(f.Reason), maxCommand)
		if f.Final {
			return s + "; it is given up"
		}
		return s + "; it is tried again"
	}
	return "the record of the question was damaged, it is asked anew: " + Cut(text.Display(f.Error), 2*maxCommand)
}
