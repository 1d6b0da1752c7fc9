package chain

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"
)

// maxID is how long an id may be.
const maxID = 100

// idTime is the beginning of an id, to the millisecond, in UTC.
const idTime = "20060102T150405.000"

// NewID is an id for a chain that is opened now. Ids sort as text in the order of
// their times; two of the same millisecond are different.
func NewID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return now.UTC().Format(idTime) + "-" + hex.EncodeToString(b[:])
}

// IsID reports whether a name can be that of a chain, and so of its file.
func IsID(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= maxID && strings.Trim(s, letters+"._-") == "" && strings.Contains(letters, s[:1]) &&
		!strings.Contains(s, "..") && !strings.HasSuffix(s, ".")
}
