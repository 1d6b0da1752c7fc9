package loop

import (
	"encoding/json"
	"fmt"
	"time"
)

// Line is one line of events.jsonl. The journal adds the sequence number and the
// hashes.
type Line struct {
	Seq       int64           `json:"seq,omitempty"` // the journal gives it
	Timestamp time.Time       `json:"timestamp"`
	Event     string          `json:"event"`
	LoopID    string          `json:"loop_id"`
	RunID     string          `json:"run_id"`
	Iteration int             `json:"iteration"`
	Fields    json.RawMessage `json:"-"`
}

// ParseLine reads a line as it stands in events.jsonl: the envelope and the
// event's own members are one object. It does not check hashes; the journal does.
func ParseLine(raw []byte) (Line, error) {
	var l Line
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, fmt.Errorf("reading a line of the journal: %w", err)
	}
	if l.Event == "" || l.Timestamp.IsZero() {
		return l, fmt.Errorf("reading a line of the journal: it has no event or no timestamp: %.80q", raw)
	}
	l.Fields = raw // no own member has a name of the envelope
	return l, nil
}
