// Package add makes a loop beside the first one of a configuration, from its spec. It is pure.
package add

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config/edit"
	"github.com/superloop/superloop/schemas"
)

// maxID bounds the id that Name makes, in characters. The file of a spec and a branch are named after it.
const maxID = 40

// Name returns an id for the loop of a spec: from the name of its file, or without one from its first heading or line. It
// returns "" if neither has a letter or digit of ASCII.
func Name(file string, spec []byte) string {
	if file != "" {
		return text.Slug(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), maxID)
	}
	for line := range strings.Lines(string(spec)) {
		if id := text.Slug(strings.TrimLeft(strings.TrimSpace(line), "# "), maxID); id != "" {
			return id
		}
	}
	return ""
}

// Free returns id, or id with the first number behind it for which taken is false: "docs-2".
func Free(id string, taken func(id string) bool) string {
	free := id
	for n := 2; taken(free); n++ {
		free = fmt.Sprintf("%s-%d", id, n)
	}
	return free
}

// Taken returns whether an id is among ids, as names of files on a system that does not tell cases apart.
func Taken(ids []string) func(id string) bool {
	return func(id string) bool {
		return slices.ContainsFunc(ids, func(s string) bool { return strings.EqualFold(s, id) })
	}
}

// Loop adds a loop to the configuration in data: the first loop without its comments, with another id and spec, and in a
// git work tree of its own. checklists are its checklists, nil those of the first loop. Loop returns the configuration, in which every other byte is as it was, and the new loop's text with
// its indentation.
func Loop(data []byte, id, spec string, checklists []string) (next []byte, added string, err error) {
	one, err := like(data, id, spec, checklists)
	if err != nil {
		return nil, "", err
	}
	before, level := edit.Indent(data, "/loops")
	if level != "" {
		var b bytes.Buffer
		if err := json.Indent(&b, one, before, level); err != nil {
			return nil, "", err
		}
		one = b.Bytes()
	}
	next, err = edit.Insert(data, "/loops", edit.Last, string(one))
	return next, before + string(one), err
}

// Own returns the configuration of a loop that is not in the repository's: that in data with the loop of Loop as its only
// one.
func Own(data []byte, id, spec string, checklists []string) ([]byte, error) {
	one, err := like(data, id, spec, checklists)
	if err != nil {
		return nil, err
	}
	return edit.Set(data, "", "loops", "["+string(one)+"]")
}

// like returns the first loop of a configuration with another id and spec, in a git work tree of its own.
func like(data []byte, id, spec string, checklists []string) ([]byte, error) {
	doc, problems := schemas.Parse(schemas.Config, data)
	if doc == nil {
		return nil, fmt.Errorf("reading the configuration: %s", problems[0])
	}
	one := []byte(doc.Raw("/loops/0", func(key string) bool { return strings.HasPrefix(key, "//") || strings.HasPrefix(key, "_comment") }))
	if one == nil {
		return nil, fmt.Errorf("the configuration has no loop that the new one could be like")
	}
	var err error
	set := func(pointer, key string, value any) {
		if err == nil {
			var raw []byte
			if raw, err = json.Marshal(value); err == nil {
				one, err = edit.Set(one, pointer, key, string(raw))
			}
		}
	}
	set("", "id", id)
	set("", "spec_file", spec)
	if checklists != nil {
		set("", "checklists", checklists)
	}
	if doc.Raw("/loops/0/git", nil) == nil {
		set("", "git", map[string]bool{"worktree": true})
	} else {
		set("/git", "worktree", true)
	}
	return one, err
}
