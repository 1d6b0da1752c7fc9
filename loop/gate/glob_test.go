package gate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	outside := repo(t, map[string]string{"secret.md": "x"})
	root := repo(t, map[string]string{
		"a.md": "", "b.txt": "", ".hidden.md": "", "docs/one.md": "", "docs/deep/two.md": "", "docs/deep/er/three.md": "",
		".git/HEAD.md": "", "docs/.cache/c.md": "", "app/[id]/page.tsx": "", "app/i/page.tsx": "",
		"link.md": "-> a.md", "linked": "-> docs", "out.md": "-> " + outside + "/secret.md", "outdir": "-> " + outside,
		"loop": "-> .", "dangling.md": "-> nowhere", "sp ace/new\nline.md": "",
	})
	tr, err := openTree(root)
	must(t, err)
	defer tr.close()
	for pattern, want := range map[string]string{
		"a.md":              "a.md",
		"./docs/../a.md":    "a.md",
		root + "/a.md":      "a.md",
		"*.md":              "a.md dangling.md link.md out.md",
		".*.md":             ".hidden.md",
		"docs/**/*.md":      "docs/deep/er/three.md docs/deep/two.md docs/one.md",
		"**/three.md":       "docs/deep/er/three.md",
		"**/**/three.md":    "docs/deep/er/three.md",
		"docs/**":           "docs/deep/er/three.md docs/deep/two.md docs/one.md",
		"docs/*":            "docs/deep docs/one.md",
		"docs/d?ep/[st]*":   "docs/deep/two.md",
		"docs/d?ep/[!t]*":   "docs/deep/er",
		"linked/one.md":     "linked/one.md",
		"*/one.md":          "docs/one.md linked/one.md",
		"app/[id]/page.tsx": "app/[id]/page.tsx",
		"app/[ij]/page.tsx": "app/i/page.tsx",
		"nothing/*.md":      "",
		"a.md/*":            "",
		"nothing.md":        "",
		"docs/":             "docs",
		"sp ace/*":          "sp ace/new\nline.md",
	} {
		got, err := tr.expand(pattern)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %q (%v), want %q", pattern, got, err, want)
		}
	}
	for pattern, want := range map[string]string{
		"../x": ReasonOutside, "/etc/passwd": ReasonOutside, "a/../../x": ReasonOutside, "..": ReasonOutside,
		"": ReasonNoPath, "a\x00b": ReasonNoPath, "a/[": ReasonBadPattern, "outdir/secret.md": ReasonOutside,
		"outdir/*.md": ReasonOutside, "outdir/**/*.md": ReasonOutside,
	} {
		if _, err := tr.expand(pattern); err == nil || faultOf(err).reason != want {
			t.Errorf("%s: got %v, want %s", pattern, err, want)
		}
	}
}

// Every pattern finds what matching each path of the tree by itself finds.
func TestExpandFindsWhatMatches(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var all []string
	for _, d := range []string{"", "a", "b", "a/a", "a/b", "a/b/a", "b/b"} {
		must(t, os.MkdirAll(filepath.Join(root, d), 0o755))
		for _, f := range []string{"x", "y", "xy"} {
			p := filepath.Join(d, f)
			must(t, os.WriteFile(filepath.Join(root, p), nil, 0o644))
			all = append(all, p)
		}
	}
	tr, err := openTree(root)
	must(t, err)
	defer tr.close()
	rapid.Check(t, func(t *rapid.T) {
		segs := rapid.SliceOfN(rapid.SampledFrom([]string{"**", "*", "a", "b", "[ab]"}), 0, 4).Draw(t, "directories")
		segs = append(segs, rapid.SampledFrom([]string{"x", "*", "x*", "?", "[!x]"}).Draw(t, "file"))
		pattern := strings.Join(segs, "/")
		got, err := tr.expand(pattern)
		if err != nil {
			t.Fatal(err)
		}
		got = slices.DeleteFunc(got, func(p string) bool { return !slices.Contains(all, p) }) // "*" names directories too
		var want []string
		for _, p := range all {
			if naive(segs, strings.Split(p, "/")) {
				want = append(want, p)
			}
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%s: got %q, want %q", pattern, got, want)
		}
	})
}

// naive matches one path by trying everything.
func naive(pattern, p []string) bool {
	switch {
	case len(pattern) == 0:
		return len(p) == 0
	case pattern[0] == "**":
		return naive(pattern[1:], p) || len(p) > 0 && naive(pattern, p[1:])
	case len(p) == 0:
		return false
	}
	ok, _ := filepath.Match(strings.ReplaceAll(pattern[0], "[!", "[^"), p[0])
	return ok && naive(pattern[1:], p[1:])
}

func TestExpandReportsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	root := repo(t, map[string]string{"closed/a.md": "- [ ] x"})
	must(t, os.Chmod(filepath.Join(root, "closed"), 0))
	t.Cleanup(func() { os.Chmod(filepath.Join(root, "closed"), 0o755) })
	tr, err := openTree(root)
	must(t, err)
	defer tr.close()
	if _, err := tr.expand("**/*.md"); err == nil || faultOf(err).reason != ReasonUnreadable {
		t.Errorf("got %v", err)
	}
}
