package local

import (
	"fmt"
	"strings"
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

// capTimeout is the smaller of an own bound and what the loop has left.
func capTimeout(own time.Duration, leftMS int64) (_ time.Duration, capped bool) {
	left := ms(leftMS)
	if leftMS > 0 && (own == 0 || left < own) {
		return left, true
	}
	return own, false
}

// variable is the value of a variable in an environment.
func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}
