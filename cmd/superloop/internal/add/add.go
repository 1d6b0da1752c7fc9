// Package add makes a loop beside the first one of a configuration, from its spec. It is pure.
package add

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/superloop/superloop/loop/config/edit"
	"github.com/superloop/superloop/schemas"
)

// maxID bounds the id that Name makes, in characters. The file of a spec and a branch are named after it.
const maxID = 40

// Name returns an id for the loop of a spec: from the name of its file, or without one from its first heading or line. It
// returns "" if neither has a letter or digit of ASCII.
func Name(file string, spec []byte) string {
	if file != "" {
		return slug(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	}
	for line := range strings.Lines(string(spec)) {
		if id := slug(strings.TrimLeft(strings.TrimSpace(line), "# ")); id != "" {
			return id
		}
	}
	return ""
}

// slug returns the ASCII letters and digits of a text in lower case, with one hyphen for whatever stands between them.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	id := strings.Join(words, "-")
	return strings.TrimRight(id[:min(len(id), maxID)], "-")
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
// git work tree of its own. It returns the configuration, in which every other byte is as it was, and the new loop's text with
// its indentation.
func Loop(data []byte, id, spec string) (next []byte, added string, err error) {
	doc, problems := schemas.Parse(schemas.Config, data)
	if doc == nil {
		return nil, "", fmt.Errorf("reading the configuration: %s", problems[0])
	}
	one := []byte(doc.Raw("/loops/0", func(key string) bool { return strings.HasPrefix(key, "//") || strings.HasPrefix(key, "_comment") }))
	if one == nil {
		return nil, "", fmt.Errorf("the configuration has no loop that the new one could be like")
	}
	set := func(pointer, key string, value any) {
		if err == nil {
			var text []byte
			if text, err = json.Marshal(value); err == nil {
				one, err = edit.Set(one, pointer, key, string(text))
			}
		}
	}
	set("", "id", id)
	set("", "spec_file", spec)
	if doc.Raw("/loops/0/git", nil) == nil {
		set("", "git", map[string]bool{"worktree": true})
	} else {
		set("/git", "worktree", true)
	}
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
