package main

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/schemas"
)

// keptPolicy is the name that a policy beside a journal has: its digest. A journal may name anything.
var keptPolicy = regexp.MustCompile(`^[0-9a-f]{64}$`)

// keptBeside returns a function that reads the policies which are kept beside a journal.
func keptBeside(journal string) func(digest string) (*recovery.Policy, error) {
	return func(digest string) (*recovery.Policy, error) {
		if !keptPolicy.MatchString(digest) {
			return nil, fmt.Errorf("%.80q is no digest of a policy", digest)
		}
		data, err := door.Read(filepath.Join(filepath.Dir(journal), "policies", digest+".json"), int64(schemas.Config.Limit()))
		if err != nil {
			return nil, err
		}
		return recovery.Kept(digest, data)
	}
}
