package walk

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// idTime is the beginning of an id, to the millisecond, in UTC.
const idTime = "20060102T150405.000"

// NewID is an id for a chain that is opened now. Ids sort as text in the order of their times; two of the same
// millisecond are different.
func NewID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return now.UTC().Format(idTime) + "-" + hex.EncodeToString(b[:])
}
