package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/superloop/superloop/internal/durable"
)

//go:embed page.html site.css search.js
var assets embed.FS

// page is a page of the documentation.
type page struct {
	file     string // its path in the repository
	out      string // its name in the site
	source   []byte
	doc      ast.Node
	anchors  []string // the ids of its headings
	Title    string
	Sections []section // its headings of the second level
}

type section struct{ Anchor, Title string }

// found is what the search knows of a part of a page, from one heading to the next.
type found struct {
	Page  string `json:"page"`
	Href  string `json:"href"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// builder holds the pages of a site that is being made, and what is wrong with them.
type builder struct {
	root     string
	pages    map[string]*page  // by file
	copies   map[string]string // what is linked beside the pages: the path in the repository -> the name in the site
	problems []error
}

// build makes the site of the repository root in dir.
func build(disk durable.Disk, root, dir string) error {
	b := &builder{root: root, pages: map[string]*page{}, copies: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return err
	}
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	for _, file := range append([]string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}, files...) {
		name := strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(file, root)), "/")
		if err := b.read(markdown, name); err != nil {
			return err
		}
	}
	order := b.navigation()
	for _, p := range order {
		b.links(p)
	}
	if len(b.problems) > 0 {
		return errors.Join(b.problems...)
	}
	return b.write(disk, markdown, order, dir)
}

func (b *builder) read(markdown goldmark.Markdown, file string) error {
	source, err := os.ReadFile(filepath.Join(b.root, filepath.FromSlash(file)))
	if err != nil {
		return err
	}
	p := &page{file: file, out: strings.ToLower(strings.TrimSuffix(path.Base(file), ".md")) + ".html", source: source}
	if file == "README.md" {
		p.out = "index.html"
	}
	ids := &anchors{seen: map[string]int{}}
	p.doc = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	p.anchors = ids.all
	for h := range headings(p.doc) {
		title := plain(h, source)
		switch {
		case h.Level == 1 && p.Title == "":
			p.Title = title
		case h.Level == 2:
			p.Sections = append(p.Sections, section{anchor(h), title})
		}
	}
	if p.Title == "" {
		return fmt.Errorf("%s has no title: begin it with a line \"# TITLE\"", file)
	}
	b.pages[file] = p
	return nil
}

// navigation returns the pages in the order in which README.md names them in its table of pages.
func (b *builder) navigation() []*page {
	readme := b.pages["README.md"]
	order := []*page{readme}
	inTable := false
	for n := range nodes(readme.doc) {
		if h, ok := n.(*ast.Heading); ok {
			inTable = plain(h, readme.source) == "More"
		}
		link, ok := n.(*ast.Link)
		if !ok || !inTable {
			continue
		}
		if p := b.pages[string(link.Destination)]; p != nil && !slices.Contains(order, p) {
			order = append(order, p)
		}
	}
	for file, p := range b.pages {
		if !slices.Contains(order, p) {
			b.problems = append(b.problems, fmt.Errorf("%s is in no row of the table below \"## More\" in README.md; add one", file))
		}
	}
	return order
}

func (b *builder) write(disk durable.Disk, markdown goldmark.Markdown, order []*page, dir string) error {
	shell, err := template.ParseFS(assets, "page.html")
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	var index []found
	for _, p := range order {
		var body, whole bytes.Buffer
		if err := markdown.Renderer().Render(&body, p.source, p.doc); err != nil {
			return fmt.Errorf("rendering %s: %w", p.file, err)
		}
		type entry struct {
			Title, Out string
			Here       bool
			Sections   []section
		}
		var nav []entry
		for _, other := range order {
			nav = append(nav, entry{other.Title, other.out, other == p, other.Sections})
		}
		// The Markdown is the repository's own, and goldmark passes no HTML on.
		if err := shell.Execute(&whole, map[string]any{"Title": p.Title, "Nav": nav, "Body": template.HTML(body.String())}); err != nil {
			return fmt.Errorf("rendering %s: %w", p.file, err)
		}
		files[p.out] = whole.Bytes()
		index = append(index, p.parts()...)
	}
	list, err := json.Marshal(index)
	if err != nil {
		return err
	}
	files["index.js"] = fmt.Appendf(nil, "window.parts = %s;\n", list)
	for _, name := range []string{"site.css", "search.js"} {
		if files[name], err = assets.ReadFile(name); err != nil {
			return err
		}
	}
	for from, to := range b.copies {
		if files[to], err = os.ReadFile(filepath.Join(b.root, filepath.FromSlash(from))); err != nil {
			return err
		}
	}
	for name, data := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := disk.MkdirAll("site-dir", filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := disk.WriteProjection("site-file", file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
