package recovery

import "unicode/utf8"

// Near is the entry of auto_approve that is most like a command.
type Near struct {
	Entry int    `json:"entry"` // its place
	Text  string `json:"text"`
	At    int    `json:"at"`    // the byte at which the two differ first
	Edits int    `json:"edits"` // how many bytes would have to be changed, as far as was counted
}

// Nearest finds the entry that an operator may take the command for, or that the proposal may have meant; ok is false when
// none is like it. It is for display: being near grants nothing.
func (p *Policy) Nearest(command string) (near Near, ok bool) {
	const most = 300 // bytes that are compared; the rest counts by its length
	near.Edits = 1 << 30
	for i, entry := range p.Settings.AutoApprove {
		if entry == command {
			return Near{Entry: i, Text: entry, At: len(entry)}, true
		}
		short, long := min(len(entry), len(command)), max(len(entry), len(command))
		if long-short >= near.Edits {
			continue
		}
		d := edits(entry[:min(most, len(entry))], command[:min(most, len(command))]) + max(0, long-most) - max(0, short-most)
		if d < near.Edits {
			near = Near{Entry: i, Text: entry, Edits: d}
			for near.At < short && entry[near.At] == command[near.At] {
				near.At++
			}
			for near.At > 0 && near.At < len(entry) && !utf8.RuneStart(entry[near.At]) {
				near.At--
			}
		}
	}
	// More than half of it different is another command.
	return near, near.Edits <= max(len(near.Text), 4)/2 || near.At == len(near.Text) && near.At > 0
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
