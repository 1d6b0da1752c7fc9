package manifest

import "strings"

// Requirements gives the lines of a requirements file, continued ones joined,
// without comments and blank lines.
func Requirements(text []byte) []string {
	var out []string
	for line := range strings.Lines(strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\\\n", " ")) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

// PythonName is a distribution's name as names are compared (PEP 503).
func PythonName(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.", r) }), "-")
}
