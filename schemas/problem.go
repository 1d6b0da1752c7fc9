package schemas

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// The codes of problems, for programs. Message is for operators.
const (
	CodeTooLarge     = "too_large"     // over the size cap of the kind
	CodeEmpty        = "empty"         // no bytes, or only white space
	CodeEncoding     = "encoding"      // byte order mark, not UTF-8, lone surrogate, NUL
	CodeSyntax       = "syntax"        // not JSON
	CodeTrailing     = "trailing_data" // data after the end of the value
	CodeDepth        = "too_deep"      // nested deeper than MaxDepth
	CodeValues       = "too_many_values"
	CodeNumber       = "bad_number" // a number that does not fit into a float64
	CodeDuplicateKey = "duplicate_key"
	CodeUnknownKey   = "unknown_key"
	CodeMissingKey   = "missing_key"
	CodeWrongType    = "wrong_type"
	CodeNotAllowed   = "not_allowed"  // not one of the listed values
	CodeOutOfRange   = "out_of_range" // too small, large, short, long, few or many
	CodeBadFormat    = "bad_format"   // a string of the wrong form
	CodeCombination  = "combination"  // keys that need or exclude each other
	CodeIgnoredKey   = "ignored_key"  // a warning: superloop knows the key but ignores it
	CodeTooMany      = "too_many_problems"
)

// maxProblems bounds the reported problems of one file. A file with more problems is probably not of the expected kind.
const maxProblems = 500

// Problem is one mistake in a file.
type Problem struct {
	// Pointer is the JSON pointer (RFC 6901) of the value. For an unknown or missing key it is the pointer that the key
	// has or would have.
	Pointer string `json:"pointer"`
	// Line and Column are the place in the source, from 1. Column counts characters. Both are 0 if there is no place,
	// as for a file that cannot be read.
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Found   string `json:"found,omitempty"`   // the value in the file, shortened; a secret is only described
	Allowed string `json:"allowed,omitempty"` // the values that are allowed there
	Near    string `json:"near,omitempty"`    // the known name that is most similar to an unknown one
	Message string `json:"message"`           // one sentence with all of the above, without the place
	Code    string `json:"code"`
}

// maxPointer is the length of the longest pointer that String shows whole, in characters.
const maxPointer = 200

// String returns "line:column: pointer: message" for a screen: a key may hold any characters, so it shows the pointer
// without control characters, and cut if it is long.
func (p Problem) String() string {
	s := p.Message
	if p.Pointer != "" {
		s = text.Line(p.Pointer, maxPointer) + ": " + s
	}
	if p.Line > 0 {
		s = fmt.Sprintf("%d:%d: %s", p.Line, p.Column, s)
	}
	return s
}

// Sort sorts problems in the order of the file and removes repeated ones. After 500 problems it adds one that says that
// there are more.
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

// orList joins the items for a sentence: `"a", "b" or "c"`.
func orList(items []string) string {
	switch len(items) {
	case 0:
		return ""
	case 1:
		return items[0]
	}
	return strings.Join(items[:len(items)-1], ", ") + " or " + items[len(items)-1]
}

// Nearest returns the name that an operator most likely meant by got, or "" when none is similar. Case and the
// separators '-', '_', '.' and space do not count, so maxIterations is similar to max_iterations. Otherwise at most one
// character in three may differ. Of equally similar names Nearest returns the first.
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

// distance returns the number of insertions, deletions, replacements and swaps of neighbours that turn a into b
// (optimal string alignment), in bytes.
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
