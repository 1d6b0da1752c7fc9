package loop

// OperatorNote is what an operator wants the roles to know. It changes nothing else.
type OperatorNote struct {
	Text     string `json:"text"`
	By       string `json:"by"`
	IntentID string `json:"intent_id,omitempty"`
}

func (OperatorNote) Event() string { return "operator_note" }

// Note is an OperatorNote that the prompts show.
type Note struct {
	Text      string `json:"text"`
	By        string `json:"by"`
	Iteration int    `json:"iteration"` // in which it came
}

// maxNotes bounds how many notes the prompts show: the newest.
const maxNotes = 10

// noted keeps a note for every role that starts from now to the end of the next iteration, so that each role of the loop
// reads it once at least.
func (t *turn) noted(f OperatorNote) {
	all := append(t.s.Notes[:len(t.s.Notes):len(t.s.Notes)], Note{f.Text, f.By, t.s.Iteration})
	t.s.Notes = all[max(0, len(all)-maxNotes):]
	t.s.Looked = nil // there is something new to look at
}

// forgetNotes drops the notes that every role could read.
func (t *turn) forgetNotes() {
	var kept []Note
	for _, n := range t.s.Notes {
		if n.Iteration >= t.s.Iteration-1 {
			kept = append(kept, n)
		}
	}
	t.s.Notes = kept
}
