package multiscan

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Characters that are in no expression and in no literal stand between what is known
// of an expression: the expression, its number of instructions and its sets; and
// between the literals of a set.
const (
	betweenSets     = "\x1e"
	betweenLiterals = "\x1f"
)

// Literals writes down, one a line, what Compile finds out about expressions, which
// takes it some 50 us for each: Options.Known reads it. Expressions of which it cannot be
// written are left out.
func Literals(exprs []string, maxProgram int) string {
	var b strings.Builder
	for _, e := range exprs {
		a := new(compiler).analyse(0, e, maxProgram)
		line := e + betweenSets + strconv.FormatInt(a.program, 10)
		for _, set := range a.sets {
			line += betweenSets + strings.Join(set, betweenLiterals)
		}
		back, err := readLiterals(line + "\n")
		if err == nil && a.program > 0 && reflect.DeepEqual(back, map[string]analysis{e: a}) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// readLiterals gives what is known of each expression.
func readLiterals(text string) (map[string]analysis, error) {
	known := make(map[string]analysis, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), betweenSets)
		if len(fields) < 2 {
			return nil, fmt.Errorf("line %q", line)
		}
		program, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, err
		}
		a := analysis{program: program}
		for _, set := range fields[2:] {
			a.sets = append(a.sets, strings.Split(set, betweenLiterals))
		}
		known[fields[0]] = a
	}
	return known, nil
}
