package archtest

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	tableFile   = "docs/architecture.md"
	tableHeader = "| package | one line | may import, of ours |"
)

// row is what the table says of one package: what it may import of ours.
type row struct {
	pkg    string
	line   int // of the page
	any    bool
	may    []string // patterns: a path, or a path with /...
	except []string // patterns that may does not cover
}

func (r row) allows(pkg string) bool {
	return (r.any || matches(pkg, strings.Join(r.may, ","))) && !matches(pkg, strings.Join(r.except, ","))
}

// String is the row's cell, for messages.
func (r row) String() string {
	switch {
	case r.any:
		return "anything"
	case len(r.may) == 0:
		return "nothing of ours"
	case len(r.except) > 0:
		return "all above but " + strings.Join(r.except, ", ")
	}
	return strings.Join(r.may, ", ")
}

var itemForm = regexp.MustCompile("^`([a-z0-9-]+(?:/[a-z0-9-]+)*(?:/\\.\\.\\.)?)`$")

func parseList(cell string) (patterns []string, err error) {
	for item := range strings.SplitSeq(cell, ", ") {
		m := itemForm.FindStringSubmatch(item)
		if m == nil {
			return nil, fmt.Errorf("%q is no item of the grammar below the table: want a path in backticks", item)
		}
		patterns = append(patterns, m[1])
	}
	return patterns, nil
}

// parseCell reads the last column of a row; above are the packages of the rows
// before it.
func parseCell(cell string, above []string) (r row, err error) {
	switch cell {
	case "-":
		return row{}, nil
	case "anything":
		return row{any: true}, nil
	case "all above":
		return row{may: above}, nil
	}
	if list, ok := strings.CutPrefix(cell, "all above but "); ok {
		r.may = above
		r.except, err = parseList(list)
		return r, err
	}
	r.may, err = parseList(cell)
	return r, err
}

// parseTable reads the table of packages from the page.
func parseTable(page string) (map[string]row, error) {
	lines := strings.Split(page, "\n")
	at := slices.Index(lines, tableHeader)
	if at < 0 {
		return nil, fmt.Errorf("%s has no table that begins with %q", tableFile, tableHeader)
	}
	rows := map[string]row{}
	var above []string
	for i := at + 2; i < len(lines) && strings.HasPrefix(lines[i], "|"); i++ {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(lines[i], "| "), " |"), " | ")
		if len(cells) != 3 {
			return nil, fmt.Errorf("%s:%d: a row has three cells, this one has %d", tableFile, i+1, len(cells))
		}
		name, err := parseList(cells[0])
		if err != nil || len(name) != 1 || strings.HasSuffix(name[0], "...") {
			return nil, fmt.Errorf("%s:%d: %q names no package: want one path in backticks", tableFile, i+1, cells[0])
		}
		r, err := parseCell(cells[2], above)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", tableFile, i+1, err)
		}
		r.pkg, r.line = name[0], i+1
		if strings.TrimSpace(cells[1]) == "" {
			return nil, fmt.Errorf("%s:%d: %s has no line that says what it is", tableFile, i+1, r.pkg)
		}
		if _, twice := rows[r.pkg]; twice {
			return nil, fmt.Errorf("%s:%d: %s has two rows", tableFile, i+1, r.pkg)
		}
		rows[r.pkg] = r
		above = append(slices.Clone(above), r.pkg)
	}
	return rows, nil
}

func readTable(t *testing.T) map[string]row {
	t.Helper()
	page, err := os.ReadFile("../../" + tableFile)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseTable(string(page))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// checkTable says where the table and the packages that exist differ.
func checkTable(rows map[string]row, packages []string) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, pkg := range packages {
		if _, ok := rows[pkg]; !ok {
			say("package %s is not in the table of %s: nobody knows what it is for and what it may import; add a row", pkg, tableFile)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		if !slices.Contains(packages, r.pkg) {
			say("%s:%d: package %s does not exist, so the row misleads; remove it, or rename it with the package", tableFile, r.line, r.pkg)
		}
		for _, pattern := range slices.Concat(r.may, r.except) {
			if !slices.ContainsFunc(packages, func(p string) bool { return matches(p, pattern) }) {
				say("%s:%d: %s stands for no package, so the cell of %s promises nothing; remove it", tableFile, r.line, pattern, r.pkg)
			}
		}
	}
	return problems
}

// packagesOf are the directories of the files.
func packagesOf(files map[string][]byte) []string {
	seen := map[string]bool{}
	for rel := range files {
		seen[path.Dir(rel)] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func TestTableNamesEveryPackage(t *testing.T) {
	for _, problem := range checkTable(readTable(t), packagesOf(sources(t))) {
		t.Error(problem)
	}
}

const smallTable = "text\n\n" + tableHeader + "\n|---|---|---|\n" +
	"| `a` | the first | - |\n| `a/b` | below it | `a` |\n| `c` | both | `a/...` |\n| `d` | all but one | all above but `a/b` |\n| `e` | the top | anything |\n\nmore\n"

func TestTableGrammar(t *testing.T) {
	rows, err := parseTable(smallTable)
	if err != nil {
		t.Fatal(err)
	}
	for pkg, may := range map[string]string{"a": "", "a/b": "a", "c": "a a/b", "d": "a c", "e": "a a/b c d e"} {
		for _, other := range []string{"a", "a/b", "c", "d", "e"} {
			if got, want := rows[pkg].allows(other), slices.Contains(strings.Fields(may), other); got != want {
				t.Errorf("%s imports %s: allowed %v, want %v", pkg, other, got, want)
			}
		}
	}
	for name, c := range map[string]struct{ old, put, want string }{
		"no table":       {tableHeader, "", "no table that begins with"},
		"no backticks":   {"| `a` |\n", "| a |\n", "no item of the grammar"},
		"a word":         {"| - |", "| nothing |", "no item of the grammar"},
		"no comma":       {"`a/...`", "`a` `c`", "no item of the grammar"},
		"a pattern row":  {"| `c` |", "| `c/...` |", "names no package"},
		"twice":          {"| `c` |", "| `a` |", "two rows"},
		"no description": {"| both |", "|  |", "no line that says what it is"},
		"two cells":      {" | both |", " |", "three cells"},
	} {
		if _, err := parseTable(strings.Replace(smallTable, c.old, c.put, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestTableAndPackagesDiffer(t *testing.T) {
	rows, err := parseTable(smallTable)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ packages, want string }{
		"fine":         {"a a/b c d e", ""},
		"no row":       {"a a/b c d e attic", "attic is not in the table"},
		"no package":   {"a a/b d e", "package c does not exist"},
		"gone pattern": {"a c d e", "a/b stands for no package"},
	} {
		got := strings.Join(checkTable(rows, strings.Fields(c.packages)), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
