package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/door"
)

const specTemplate = `# %s

What is to be built, and how a reviewer can tell that it is done. The agents read this file in every iteration.

## Goal

One paragraph.

## Done when

- [ ] Each thing that must be true, one per line.
`

// SpecTemplate returns the spec that init writes for a loop. An operator replaces its text. CanComplete refuses a loop
// whose spec is still this one.
func SpecTemplate(id string) []byte { return fmt.Appendf(nil, specTemplate, id) }

// sameSpec bounds the size of a file that can be the template, in bytes.
const sameSpec = 8 << 10

// Unwritten reports whether a spec is blank, or still the template of init. CanComplete refuses a loop with such a spec.
func Unwritten(spec []byte) bool { return len(spec) <= sameSpec && saysNothing(string(spec)) }

// saysNothing reports whether a spec is blank or says nothing beyond the template of init: besides a title, each of its
// lines is blank or a line of the template, whatever is ticked in it.
func saysNothing(spec string) bool {
	plain := func(line string) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(strings.ToLower(line), "[x]", "[ ]")), " ")
	}
	known := map[string]bool{}
	for line := range strings.Lines(specTemplate) {
		known[plain(line)] = true
	}
	titled, template := false, false
	for line := range strings.Lines(spec) {
		switch l := plain(line); {
		case l == "":
		case known[l]:
			template = true
		case strings.HasPrefix(l, "# ") && !titled:
			titled = true
		default:
			return false
		}
	}
	return template || !titled
}

// unwritten reports whether the spec in a file of the repository says nothing. A spec that cannot be read is a problem of
// Check.
func (k *checker) unwritten(file string) bool {
	data, err := door.ReadOwn(filepath.Join(k.root, file), sameSpec)
	return err == nil && saysNothing(string(data))
}
