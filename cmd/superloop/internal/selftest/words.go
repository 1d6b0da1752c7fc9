package selftest

import "strings"

func joined(list []string) string { return strings.Join(list, ", ") }

// containsLines: every line of want stands in text, in order; CLIs put words of
// their own around what a tool has said.
func containsLines(text, want string) bool {
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		_, rest, ok := strings.Cut(text, line)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}
