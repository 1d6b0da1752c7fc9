package worktree

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/proc"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		globs   string // separated by blanks
		ignored string
		counted string
	}{
		{"", "", "a.log dist/x"},
		{"*.log", "a.log d/b.log", "a.logs log"},
		{"dist/", "dist/x dist/y/z a/dist/x", "dist a/dist distx/y"},
		{"node_modules/**", "node_modules/a/b", "x/node_modules/a node_modules"},
		{"**/node_modules/**", "node_modules/a x/node_modules/a", "node_modules"},
		{"**/x", "x a/x a/b/x x/y", "xx a/xx"},
		{"/top", "top top/a", "a/top"},
		{"a/b", "a/b a/b/c", "x/a/b a/c"},
		{"a/*/c", "a/b/c a/x/c/d", "a/c a/b/b/c"},
		{"a/**/c", "a/c a/b/c a/b/b/c", "b/c"},
		{"*.log !keep.log", "a.log", "keep.log d/keep.log"},
		{"dist/ !dist/keep", "dist/keep dist/x", "a"},
		{"dist/* !dist/keep", "dist/x", "dist/keep"},
		{"[ab].txt [!c]x", "a.txt b.txt ax", "c.txt cx"},
		{"./build/**", "build/a", "a"},
		{".git/** .venv/**", ".venv/lib/x", "venv"},
		{"nested/", "nested/", "nested"},
		{"nested", "nested/ nested", "nestedx"},
		{"**", "a a/b", ""},
		{"/ !", "", "a"},
	} {
		counted, ignored, err := Filter(strings.Fields(tt.ignored+" "+tt.counted), strings.Fields(tt.globs))
		if err != nil || strings.Join(ignored, " ") != tt.ignored || strings.Join(counted, " ") != tt.counted {
			t.Errorf("%s: ignored %v, counted %v, %v", tt.globs, ignored, counted, err)
		}
	}
	for _, bad := range []string{"[", "a/[b", "a//b"} {
		counted, ignored, err := Filter([]string{"x"}, []string{"x", bad})
		if err == nil || len(counted) != 1 || ignored != nil {
			t.Errorf("%s: %v %v %v", bad, counted, ignored, err)
		}
	}
}

// git itself is the judge of what a glob means.
func TestFilterIsGitignore(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	names := []string{"a", "b", "ab", "a.x", "d/a", "d/b", "d/e/a", "d/e/b.x", "e/d/a", "e/a.x"}
	for _, n := range names {
		b.put(n, "")
	}
	seg := rapid.SampledFrom([]string{"a", "b", "d", "e", "*", "**", "?", "*.x", "[ab]", "[!a]", "a*"})
	glob := rapid.Custom(func(t *rapid.T) string {
		g := strings.Join(rapid.SliceOfN(seg, 1, 3).Draw(t, "names"), "/")
		return rapid.SampledFrom([]string{"", "", "", "!"}).Draw(t, "not") + rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "top") +
			g + rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "dir")
	})
	b.put(".git/info/exclude", "")
	rapid.Check(t, func(rt *rapid.T) {
		globs := rapid.SliceOfN(glob, 1, 3).Draw(rt, "globs")
		if err := os.WriteFile(filepath.Join(b.dir, ".git/info/exclude"), []byte(strings.Join(globs, "\n")+"\n"), 0o644); err != nil {
			rt.Fatal(err)
		}
		out, err := proc.Tool{Dir: b.dir, Env: b.env}.Run(b.t.Context(), "git", "ls-files", "-z", "--others", "--exclude-standard")
		if err != nil {
			rt.Fatal(err)
		}
		counted, _, err := Filter(names, globs)
		if err != nil {
			rt.Fatal(err)
		}
		got, want := counted, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if want[0] == "" {
			want = nil
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			rt.Fatalf("%q: counted %q, git says %q", globs, got, want)
		}
	})
}
