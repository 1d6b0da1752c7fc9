package durable

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// Whoever makes a directory at the same time as others has it afterwards, without an error.
func TestMkdirAllAtOnce(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for round := range 200 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := OS().MkdirAll("dirs", filepath.Join(top, fmt.Sprint(round), "a", "b"), 0o700); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
