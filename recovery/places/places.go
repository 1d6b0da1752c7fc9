// Package places is the list of what steers programs of a user, outside of every repository: places.txt. Package
// steering keeps agents from writing it, and package inputs compares what a listed command reads of it.
package places

import (
	_ "embed" // for places.txt
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed places.txt
var text string

// Entry is a group of places that have one reason. places.txt says what the fields mean.
type Entry struct {
	ID                        string
	With, Holds, Keeps, Hides []string // Holds has the places of pins, too
	Secret, Tree              []string
	Inputs                    []Inputs // pins and watches
	Why                       string
}

// Inputs are files that steer some programs.
type Inputs struct {
	Programs, Files []string // the files are relative to the home directory; "/*" at the end stands for all of a directory
}

// Entries returns the entries in their order. The caller changes nothing of them.
var Entries = sync.OnceValue(func() []Entry {
	entries, err := parse(text)
	if err != nil {
		panic("places.txt: " + err.Error()) // the file is part of the program, and a test reads it
	}
	return entries
})

// ByProgram returns for each program the files of its Inputs, and for "" those of all. The caller changes nothing of them.
var ByProgram = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for _, e := range Entries() {
		for _, in := range e.Inputs {
			for _, program := range append(in.Programs, "") {
				out[program] = append(out[program], in.Files...)
			}
		}
	}
	return out
})

// Secrets returns the places of secrets, and Trees the names in a work tree that agents do not write. The caller changes
// nothing of them.
var (
	Secrets = sync.OnceValue(func() []string { return all(func(e Entry) []string { return e.Secret }) })
	Trees   = sync.OnceValue(func() []string { return all(func(e Entry) []string { return e.Tree }) })
)

func all(of func(Entry) []string) (out []string) {
	for _, e := range Entries() {
		out = append(out, of(e)...)
	}
	return out
}

func parse(text string) (list []Entry, _ error) {
	open := false
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			open = false
			continue
		case strings.HasPrefix(line, "#"):
			continue
		case !open && len(words) == 1 && line == words[0]:
			list, open = append(list, Entry{ID: line}), true
			continue
		case !open || len(words) < 2:
			return nil, fmt.Errorf("line %d: %.80q begins no entry and belongs to none", i+1, line)
		}
		e := &list[len(list)-1]
		switch rest := words[1:]; words[0] {
		case "pins", "watches":
			if err := e.inputs(strings.Join(rest, " "), words[0] == "pins"); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		case "why":
			e.Why = strings.Join(rest, " ")
		default:
			list := map[string]*[]string{"with": &e.With, "holds": &e.Holds, "keeps": &e.Keeps, "hides": &e.Hides, "secret": &e.Secret, "tree": &e.Tree}[words[0]]
			if list == nil {
				return nil, fmt.Errorf("line %d: no key %.80q", i+1, words[0])
			}
			*list = append(*list, rest...)
		}
	}
	return list, nil
}

// inputs adds "PROGRAM ...: FILE ...".
func (e *Entry) inputs(rest string, held bool) error {
	programs, files, ok := strings.Cut(rest, ": ")
	in := Inputs{Programs: strings.Fields(programs)}
	for _, word := range strings.Fields(files) {
		file, home := strings.CutPrefix(word, "~/")
		ok = ok && home
		in.Files = append(in.Files, strings.ReplaceAll(file, "%20", " "))
		inHeld := func(dir string) bool { return strings.HasPrefix(word, dir+"/") }
		if held && !slices.ContainsFunc(e.Holds, inHeld) {
			e.Holds = append(e.Holds, strings.TrimSuffix(word, "/*"))
		}
	}
	if e.Inputs = append(e.Inputs, in); !ok || len(in.Programs) == 0 {
		return fmt.Errorf("%.80q names no programs, a colon, and files below ~/", rest)
	}
	return nil
}
