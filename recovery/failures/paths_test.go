package failures

import (
	"slices"
	"testing"
)

func TestPathsIn(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"Error: ENOENT: no such file or directory, open 'docs/agent_library/guide.md'": {"docs/agent_library/guide.md"},
		"cat: docs/a/guide.md: No such file or directory":                              {"docs/a/guide.md"},
		`FileNotFoundError: [Errno 2] No such file or directory: "/srv/a b/x.yml"`:     {"/srv/a", "b/x.yml"},
		"cannot find file src/x.ts.":                                                   {"src/x.ts"},
		"open conf/x.yml: permission denied":                                           nil,
		"guide.md: No such file or directory":                                          nil,
		"file not found: https://example.org/a/b":                                      nil,
	} {
		if got := PathsIn([]Quote{{Text: line}, {Text: line}}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
