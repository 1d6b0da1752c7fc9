package schemas

import "strings"

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
