package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file of the catalog.
type Problem struct {
	File    string `json:"file"`    // as it was opened; embedded files begin with "data/"
	Line    int    `json:"line"`    // from 1; 0 when there is no place (a file that cannot be read)
	Column  int    `json:"column"`  // from 1, in characters
	Pointer string `json:"pointer"` // as a JSON pointer: /handlers/3/options/0/dep
	Message string `json:"message"` // one sentence that says what to write instead, where that is known
	Near    string `json:"near,omitempty"`
	Warning bool   `json:"warning,omitempty"` // the entry works all the same
}

// String is "file:line:column: pointer: message".
func (p Problem) String() string {
	s := p.File
	if p.Line > 0 {
		s += fmt.Sprintf(":%d:%d", p.Line, max(p.Column, 1))
	}
	if p.Pointer != "" {
		s += ": " + p.Pointer
	}
	if p.Warning {
		s += ": warning"
	}
	return s + ": " + p.Message
}

// Problems is what is wrong, in the order of the files.
type Problems []Problem

// maxShown bounds what Err puts into one text.
const maxShown = 20

// Errors are those that are not warnings.
func (ps Problems) Errors() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Warning })
}

// Err is nil when there are warnings at most; else an error that lists the first problems, one a line.
func (ps Problems) Err() error {
	var lines []string
	bad := ps.Errors()
	for _, p := range bad[:min(len(bad), maxShown)] {
		lines = append(lines, p.String())
	}
	if len(bad) > maxShown {
		lines = append(lines, fmt.Sprintf("and %d more", len(bad)-maxShown))
	}
	if len(bad) == 0 {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ps)
}
