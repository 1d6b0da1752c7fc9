package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/durable"
)

// The site of this repository can be made, each link leads somewhere, and the search knows every page.
func TestSite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := build(durable.OS(), "../../..", dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	index := read("index.js")
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(pages) < 15 {
		t.Fatal(len(pages), err)
	}
	for _, page := range pages {
		name := strings.ToLower(strings.TrimSuffix(filepath.Base(page), ".md")) + ".html"
		text := read(name)
		for _, want := range []string{`<a href="index.html">superloop</a>`, `aria-current="page"`, "<h1 id="} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not hold %s", name, want)
			}
		}
		if strings.Contains(text, "src=\"http") || strings.Contains(text, "@import") {
			t.Errorf("%s loads something from elsewhere", name)
		}
		if !strings.Contains(index, `"href":"`+name) {
			t.Errorf("the search does not know %s", name)
		}
	}
	if text := read("reference.html"); !strings.Contains(text, `<a href="config.html#what-init-writes">`) || !strings.Contains(text, `<h3 id="doctor---checks">`) {
		t.Error("reference.html: links and headings are not as on GitHub")
	}
	if !strings.HasPrefix(read("files/examples/config.json.txt"), "{") {
		t.Error("the example is not among the copies")
	}
}

// What is wrong with a page fails the site, and is named.
func TestSiteFindsFaults(t *testing.T) {
	t.Parallel()
	good := map[string]string{"README.md": "# superloop\n\n## More\n\n| page |\n|---|\n| [a](docs/a.md) [c](CONTRIBUTING.md) [l](CHANGELOG.md) |\n", "CONTRIBUTING.md": "# C\n", "CHANGELOG.md": "# L\n",
		"docs/a.md": "# A page\n\n## It's `--json`, twice\n\n## It's `--json`, twice\n\n<!-- a comment -->\n\n[b](../README.md#more) [here](#its---json-twice-1) [there](https://example.org/#x) [t](../LICENSE)\n", "LICENSE": "MIT"}
	for name, c := range map[string]struct{ file, text, want string }{
		"good":         {},
		"broken link":  {"docs/a.md", "# A\n\n[x](b.md)\n", "docs/a.md: the link b.md leads nowhere: there is no docs/b.md"},
		"image":        {"docs/a.md", "# A\n\n![x](b.png)\n", "there is no docs/b.png"},
		"outside":      {"docs/a.md", "# A\n\n[x](../../x)\n", "leads nowhere"},
		"directory":    {"docs/a.md", "# A\n\n[x](../docs)\n", "docs is a directory"},
		"anchor":       {"docs/a.md", "# A\n\n[x](#b)\n", "docs/a.md has no heading #b"},
		"other anchor": {"docs/a.md", "# A\n\n[x](../README.md#less)\n", "README.md has no heading #less"},
		"no title":     {"docs/a.md", "A\n", "docs/a.md has no title"},
		"not listed":   {"docs/b.md", "# B\n", "docs/b.md is in no row"},
		"HTML":         {"docs/a.md", "# A\n\n<div>x</div>\n", "docs/a.md holds HTML"},
		"HTML inside":  {"docs/a.md", "# A\n\nx <b>y</b>\n", "docs/a.md holds HTML"},
	} {
		root := t.TempDir()
		files := maps.Clone(good)
		if c.file != "" {
			files[c.file] = c.text
		}
		for file, text := range files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		err := build(durable.OS(), root, filepath.Join(root, "site"))
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
