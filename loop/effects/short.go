package effects

import (
	"fmt"
	"os"
	"time"
)

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// orNull is nil for what is not told.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// capTimeout is the smaller of an own bound and what the loop has left.
func capTimeout(own time.Duration, leftMS int64) (_ time.Duration, capped bool) {
	left := ms(leftMS)
	if leftMS > 0 && (own == 0 || left < own) {
		return left, true
	}
	return own, false
}
