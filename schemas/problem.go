package schemas

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Codes of problems, for programs; humans read Message.
const (
	CodeTooLarge     = "too_large"     // over the size cap of the kind
	CodeEmpty        = "empty"         // no bytes, or only white space
	CodeEncoding     = "encoding"      // byte order mark, not UTF-8, lone surrogate, NUL
	CodeSyntax       = "syntax"        // not JSON
	CodeTrailing     = "trailing_data" // something after the value
	CodeDepth        = "too_deep"      // nested deeper than MaxDepth
	CodeValues       = "too_many_values"
	CodeNumber       = "bad_number" // a number that no reader can hold
	CodeDuplicateKey = "duplicate_key"
	CodeUnknownKey   = "unknown_key"
	CodeMissingKey   = "missing_key"
	CodeWrongType    = "wrong_type"
	CodeNotAllowed   = "not_allowed"  // not one of the listed values
	CodeOutOfRange   = "out_of_range" // too small, large, short, long, few, many
	CodeBadFormat    = "bad_format"   // a string of the wrong form
	CodeCombination  = "combination"  // keys that need or exclude each other
	CodeIgnoredKey   = "ignored_key"  // a warning: known, but not acted on
	CodeTooMany      = "too_many_problems"
)

// maxProblems bounds what is reported of one file; a file with more is not the file that its reader thinks it is.
const maxProblems = 500

// Problem is one thing that is wrong with a file.
type Problem struct {
	// Pointer is the JSON pointer (RFC 6901) of the value; of a key that is unknown or missing, the pointer that it has
	// or would have.
	Pointer string `json:"pointer"`
	// Line and Column say where it stands in the source, from 1, columns in characters; 0 when there is no place (a
	// file that cannot be read).
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Found   string `json:"found,omitempty"`   // Found is what stands there, shortened; a secret is only described.
	Allowed string `json:"allowed,omitempty"` // Allowed is what may stand there.
	Near    string `json:"near,omitempty"`    // Near is the known name that is nearest to an unknown one.
	Message string `json:"message"`           // Message is one sentence that holds all of it, without the place.
	Code    string `json:"code"`
}

// String is "line:column: pointer: message".
func (p Problem) String() string {
	s := p.Message
	if p.Pointer != "" {
		s = p.Pointer + ": " + s
	}
	if p.Line > 0 {
		s = fmt.Sprintf("%d:%d: %s", p.Line, p.Column, s)
	}
	return s
}

// Sort puts problems into the order of the file and drops repeated ones.
func Sort(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	ps = slices.Compact(ps)
	if len(ps) > maxProblems {
		ps = append(ps[:maxProblems:maxProblems], Problem{Line: ps[maxProblems].Line, Column: ps[maxProblems].Column, Code: CodeTooMany,
			Message: fmt.Sprintf("there are more than %d problems; the others are not shown", maxProblems)})
	}
	return ps
}

// orList writes a list for humans: `"a", "b" or "c"`.
func orList(items []string) string {
	switch len(items) {
	case 0:
		return ""
	case 1:
		return items[0]
	}
	return strings.Join(items[:len(items)-1], ", ") + " or " + items[len(items)-1]
}

// Nearest gives the name of the list that a human most likely meant by got, or "" when none is near. Case and the
// separators '-', '_', '.' and space count for nothing, so maxIterations is near max_iterations; otherwise at most one
// character in three may differ. Of equally near names the first wins.
func Nearest(got string, names []string) string {
	const longest = 64
	g := fold(got)
	if g == "" || len(g) > longest {
		return ""
	}
	best, bestDist := "", len(g)+1
	for _, name := range names {
		n := fold(name)
		if n == "" || len(n) > longest {
			continue
		}
		if d := distance(g, n); d < bestDist && d <= max(1, max(len(g), len(n))/3) {
			best, bestDist = name, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// distance counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment) between two
// strings, in bytes.
func distance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
			case a[i-1] == b[j-1]:
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j], d[i][j-1], d[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
