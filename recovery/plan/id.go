package plan

import "strings"

// maxID is how long an id may be.
const maxID = 100

// IsID reports whether a name can be that of a chain, and so of its file.
func IsID(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= maxID && strings.Trim(s, letters+"._-") == "" && strings.Contains(letters, s[:1]) &&
		!strings.Contains(s, "..") && !strings.HasSuffix(s, ".")
}
