package main

import (
	"fmt"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// anchors names the headings of a page as GitHub does, so that a link works there and here.
type anchors struct {
	seen map[string]int
	all  []string
}

// Generate returns the id of a heading with this text.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	n := a.seen[id]
	a.seen[id] = n + 1
	if n > 0 {
		id += "-" + strconv.Itoa(n)
	}
	a.all = append(a.all, id)
	return []byte(id)
}

// Put is for ids that the Markdown itself gives, which ours does not.
func (a *anchors) Put([]byte) {}

// nodes yields all nodes below n, each before those below it.
func nodes(n ast.Node) iter.Seq[ast.Node] {
	return func(yield func(ast.Node) bool) {
		_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering && !yield(n) {
				return ast.WalkStop, nil
			}
			return ast.WalkContinue, nil
		})
	}
}

func headings(doc ast.Node) iter.Seq[*ast.Heading] {
	return func(yield func(*ast.Heading) bool) {
		for n := range nodes(doc) {
			if h, ok := n.(*ast.Heading); ok && !yield(h) {
				return
			}
		}
	}
}

func anchor(h *ast.Heading) string {
	id, _ := h.AttributeString("id")
	name, _ := id.([]byte)
	return string(name)
}

// plain returns the text of a node without markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for n := range nodes(n) {
		switch n := n.(type) {
		case *ast.Text:
			b.Write(util.UnescapePunctuations(n.Segment.Value(source)))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			b.Write(n.Lines().Value(source))
		case *extast.TableCell, *ast.Paragraph, *ast.ListItem:
			b.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// parts cuts the page at its headings, for the search.
func (p *page) parts() []found {
	out := []found{{p.Title, p.out, p.Title, ""}}
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Level > 1 {
			out = append(out, found{p.Title, p.out + "#" + anchor(h), plain(h, p.source), ""})
			continue
		}
		if last := &out[len(out)-1]; n.Kind() != ast.KindHeading {
			last.Text = strings.TrimSpace(last.Text + " " + plain(n, p.source))
		}
	}
	return out
}

// links leads the links and images of a page to where the site has them, and notes those that lead nowhere.
func (b *builder) links(p *page) {
	for n := range nodes(p.doc) {
		var to *[]byte
		switch n := n.(type) {
		case *ast.Link:
			to = &n.Destination
		case *ast.Image:
			to = &n.Destination
		case *ast.HTMLBlock:
			if text := n.Lines().Value(p.source); n.HTMLBlockType != ast.HTMLBlockType2 { // a comment
				b.problems = append(b.problems, fmt.Errorf("%s holds HTML, which the site does not show: %.60s", p.file, text))
			}
			continue
		case *ast.RawHTML:
			b.problems = append(b.problems, fmt.Errorf("%s holds HTML, which the site does not show: %s", p.file, n.Segments.Value(p.source)))
			continue
		default:
			continue
		}
		there, err := b.resolve(p, string(*to))
		if err != nil {
			b.problems = append(b.problems, fmt.Errorf("%s: the link %s leads nowhere: %w", p.file, *to, err))
			continue
		}
		*to = []byte(there)
	}
}

// resolve returns where a link of a page leads in the site.
func (b *builder) resolve(p *page, link string) (string, error) {
	u, err := url.Parse(link)
	if err != nil || u.IsAbs() {
		return link, err
	}
	target := p
	if u.Path != "" {
		file := path.Join(path.Dir(p.file), u.Path)
		info, err := os.Stat(filepath.Join(b.root, filepath.FromSlash(file)))
		switch {
		case err != nil || strings.HasPrefix(file, "../"):
			return "", fmt.Errorf("there is no %s", file)
		case info.IsDir(): // a directory has no page; its name says enough
			return "", fmt.Errorf("%s is a directory; link to a file of it", file)
		}
		if target = b.pages[file]; target == nil {
			to := "files/" + file
			if ext := path.Ext(file); ext != ".png" && ext != ".svg" {
				to += ".txt" // for a browser to show it
			}
			b.copies[file] = to
			return to, nil
		}
	}
	if u.Fragment == "" {
		return target.out, nil
	}
	if !slices.Contains(target.anchors, u.Fragment) {
		return "", fmt.Errorf("%s has no heading #%s", target.file, u.Fragment)
	}
	return target.out + "#" + u.Fragment, nil
}
