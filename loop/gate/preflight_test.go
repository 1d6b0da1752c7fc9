package gate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

func TestSelectors(t *testing.T) {
	t.Parallel()
	const src = `<!doctype html><html><head><title>The &amp; Title</title>
<!-- <div id="commented"></div> --><script>var s = "<i id='inscript'></i>"; // </scripty
</script><base href=x></head>
<BODY Class="dark  Wide" data-x=1>
<div id=app class='main box'><p class=one>One<p class=two>Two <b>bold<span id=inb>x</b></span>
<input type="text" disabled name=q><br/><img alt="a > b" src=i.png>
<ul><li class=l1>1<li class=l2><a href="#">2</a></ul></div>
<table><tr><td id=c1>1<td id=c2>2<tr id=r2><td>3</table>
<template><em id=intemplate></em></template><noscript><s id=innoscript></s></noscript>
<svg id=v><path id=p1 /><path id=p2/></svg><aside id=after>&lt;ok&gt;</aside>
<button data-a="x y" data-a="second" aria-label='Say "hi"'>Go</button><div/><h6 id=selfclosed></h6></div>
</BODY></html>`
	p, err := readPage(src)
	must(t, err)
	for sel, want := range map[string]bool{
		"div": true, "DIV": true, "#app": true, ".box": true, ".main.box": true, "div#app.main.box": true, "*": true, "*#app": true,
		".Wide": true, ".wide": false, "body.dark": true, "[data-x]": true, "[DATA-X]": true, "[data-x=1]": true, `[data-x="1"]`: true, "[data-x=2]": false,
		"#commented": false, "#inscript": false, "#intemplate": false, "#innoscript": false, "i": false, "template": true,
		"body #app .two": true, "#app p": true, "html body div p": true, ".one .two": false, ".two .one": false, "p p": false,
		".l1 .l2": false, "ul .l2 a": true, "li li": false, "#c1 #c2": false, "#r2 td": true, "tr tr": false, "td td": false, "table tr td": true,
		"input": true, "input[disabled]": true, "input[type=text][name='q']": true, "input[type=text][name=x]": false,
		`img[alt="a > b"]`: true, "#p1 #p2": false, "svg path": true, "svg #after": false, "#app #after": false,
		`[data-a="x y"]`: true, "[data-a=second]": false, `[aria-label='Say "hi"']`: true, "  #app   p  ": true, "#app\n.two": true,
		"div #selfclosed": true, "base": true, "b #inb": true, "[ data-x ]": true, "#nope": false, "article": false,
	} {
		s, err := parseSelector(sel)
		if err != nil {
			t.Errorf("%s: %v", sel, err)
		} else if got := p.has(s); got != want {
			t.Errorf("%s: got %t", sel, got)
		}
	}
	for _, sel := range []string{"", " ", "a > b", "a + b", "a ~ b", "a, b", "a:hover", "a::before", "[a^=b]", "[a$='b']", "[a*=b]",
		"[a|=b]", "[a~=b]", "[a=b i]", "#", ".", "a..b", "#a#b", "[", "[]", "[a", "[a=", "[a=]", `[a="b`, `[a="b"`, "#1a", ".1", "a.b>c",
		`#a\:b`, "<div id=x>", `id="root"`, "a|b", "&", "a b >", "a/b", `[a="b\"c"]`} {
		if _, err := parseSelector(sel); err == nil {
			t.Errorf("%q is understood", sel)
		}
	}
	for text, want := range map[string]bool{"The & Title": true, "Two bold": true, "<ok>": true, "OneTwo": false, "One Two": true, "var s": false} {
		if got := strings.Contains(p.text, text); got != want {
			t.Errorf("text %q: got %t in %q", text, got, p.text)
		}
	}
	if strings.Contains(p.source, "commented") || !strings.Contains(p.source, "inscript") || !strings.Contains(p.source, `alt="a > b"`) {
		t.Error("the source is not the page without comments")
	}
}

func TestPageIsForgiving(t *testing.T) {
	t.Parallel()
	for src, sel := range map[string]string{
		"<div id=a": "", "<div id='a": "", "<!-- <p>": "", "<script><p>": "script", "<p": "", "</p": "", "< p>": "", "<": "", "&": "",
		"<!--><p>": "p", "<!---><p>": "p", "<!-- --!><p>": "p", "<!--- ---><p>": "p", "<!-- -- > --><p>": "p",
		"<?xml?><p>": "p", "<![CDATA[x]]><p>": "p", "<p id=a />": "#a", "<a href=/x/y>": "", "<p =x y>": "p[y]", "<p a=>": "p",
		"<script></SCRIPT ><p>": "p", "<textarea><b></textarea><p>": "p", "</br><p>": "p", "<p\nid\n=\n'a'\n>": "#a", "<P/ID=a>": "#a",
		"<title><p></title><i>": "i",
	} {
		p, err := readPage(src)
		must(t, err)
		if sel == "" {
			continue
		}
		s, err := parseSelector(sel)
		if err != nil || !p.has(s) {
			t.Errorf("%q has no %s (%v)", src, sel, err)
		}
	}
}

// No text makes the reader fail or lose the page outside of comments, and a
// well-formed page is read as it was written.
func TestPageProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"<", ">", "/", "!", "--", "<!--", "-->", "p", "script", " ", "=", "'", `"`, "a", "</",
			"<div>", "</div>", "<li>", "<td>", "<table>", "svg", "\x00", "é", "&amp;"})).Draw(t, "soup")
		src := strings.Join(parts, "")
		p, err := readPage(src)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(src, "<!") && p.source != src {
			t.Fatalf("%q became %q", src, p.source)
		}
		for i, e := range p.elements {
			if e.Parent.Type == html.ElementNode && !slices.Contains(p.elements[:i], e.Parent) {
				t.Fatalf("element %d stands before its parent", i)
			}
		}
		depth := rapid.IntRange(1, 20).Draw(t, "depth")
		nested := ""
		for i := range depth {
			nested += "<div id=d" + strings.Repeat("x", i) + ">"
		}
		q, err := readPage(nested + strings.Repeat("</div>", depth) + "<div id=last></div>")
		// html, head and body are there in any case.
		if err != nil || len(q.elements) != depth+4 || q.elements[depth+2].Parent != q.elements[depth+1] && depth > 1 || q.elements[depth+3].Parent.Data != "body" {
			t.Fatalf("%v %+v", err, q)
		}
	})
}

func TestPageIsLinear(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"<!---->", "<!--", "<!-", "<div>", "<li>", "</p>", "<p a='", "<script>", "</script", "<td><tr>", "<svg>", "<", "<!x"} {
		p, err := readPage(strings.Repeat(unit, 1<<20/len(unit)))
		if err == nil && len(p.elements) > maxElements+1 {
			t.Errorf("%s: %d elements", unit, len(p.elements))
		}
		if err == nil {
			s, _ := parseSelector("a b c d")
			p.has(s)
		}
	}
}

// The traps of the library: each page would take it minutes, or all memory.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	numbered := func(n int, form string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		src string
		ok  bool
	}{
		"formatting that is opened again": {"<p>" + numbered(400, "<b id=b%d>") + strings.Repeat("<p>x", 50_000), true},
		"formatting over and over":        {numbered(50_000, "<p><i class=i%d>x</p>"), true},
		"attributes of many bodies":       {numbered(100_000, "<body a%d>"), false},
		"depth":                           {strings.Repeat("<div>", 600), false},
		"depth that is read":              {strings.Repeat("<div>", 400), true},
		"text before a table":             {"<table>" + strings.Repeat("x</z>", 100_000), true},
		"attributes":                      {"<p" + numbered(100_000, " a%d") + ">", true},
	} {
		if _, err := readPage(tt.src); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := readPage(strings.Repeat("<div>", 500) + strings.Repeat("<p></p>", 5_000))
	must(t, err)
	s, err := parseSelector("#no div div div div div div p")
	must(t, err)
	if p.has(s) {
		t.Error("an element that is not there")
	}
}

// What the library would read otherwise than an operator who writes a selector.
func TestPageNames(t *testing.T) {
	t.Parallel()
	p, err := readPage(`<p title="<b >x</b >"><svg viewBox="0 0 1 1"><linearGradient id=g><use xlink:href="#g"/></linearGradient></svg>
<style>s</style><iframe>f</iframe><noembed>e</noembed><noframes>n</noframes><a href=x><code>one</code><em id=e>two</em></a><table><tr><td>3</table><template><svg><template><u></u></template></svg></template><xmp>m</xmp>`)
	must(t, err)
	for sel, want := range map[string]bool{
		`p[title="<b >x</b >"]`: true, "svg linearGradient": true, "LINEARGRADIENT#g use": true, "[viewBox]": true, "[viewbox='0 0 1 1']": true,
		"[href]": true, "use[href]": false, "a code": true, "p a em#e": true, "tbody": true, "u": false, "a#e": false,
	} {
		s, err := parseSelector(sel)
		must(t, err)
		if got := p.has(s); got != want {
			t.Errorf("%s: got %t", sel, got)
		}
	}
	if p.text != "onetwo 3" {
		t.Errorf("the text is %q", p.text)
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	const page = `<html><head><base target=_blank></head><body><div id="root"></div><!-- Secret -->
<script src="/app.js?v=1#x"></script><SCRIPT SRC=js/big.js></SCRIPT><script src="https://cdn.example/x.js"></script>
<script src="//cdn.example/y.js"></script><script>inline()</script><h1>Hello
   World</h1></body></html>`
	root := repo(t, map[string]string{
		"index.html": "<p>source page</p>", "dist/index.html": page, "dist/app.js": "console.log(1)", "dist/js/big.js": strings.Repeat("x", 3000),
		"dist/empty.html": " \n", "dist/noscript.html": "<p>x</p>", "dist/missing.html": "<script src=gone.js></script><script src='../../index.html'></script>",
		"dist/based.html": "<base href='/js/'><script src=big.js></script>", "dist/zero.html": "<script src=zero.js></script>", "dist/zero.js": "",
		"dist/away.html": "<base href='https://cdn.example/'><script src=big.js></script>", "dist/sp ace.js": "x", "dist/enc.html": "<script src='sp%20ace.js'></script>",
		"dist/commented.html": "<!-- <script src=gone.js></script> -->",
	})
	for _, tt := range []struct {
		name   string
		spec   PreflightSpec
		errors string
	}{
		{"good", PreflightSpec{Entry: "dist/index.html", WebRoot: "dist", RequireScripts: true, RequiredSelectors: []string{"#root", "body h1"},
			RequiredText: []string{"Hello World", `id="root"`, "inline()"}}, ""},
		{"entry under the web root", PreflightSpec{Entry: "index.html", WebRoot: "dist", RequiredSelectors: []string{"#root"}}, ""},
		{"no web root", PreflightSpec{Entry: "dist/index.html"}, ""},
		{"no entry", PreflightSpec{Entry: "gone.html"}, "entry_not_found:gone.html (file_not_found)"},
		{"entry outside", PreflightSpec{Entry: "../x.html"}, "entry_not_found:../x.html (path_outside_repo)"},
		{"entry not said", PreflightSpec{}, "entry_not_found: (missing_path)"},
		{"web root outside", PreflightSpec{Entry: "x.html", WebRoot: ".."}, "web_root_not_found:.. (path_outside_repo)"},
		{"empty", PreflightSpec{Entry: "dist/empty.html"}, "entry_empty:dist/empty.html"},
		{"text in a comment", PreflightSpec{Entry: "dist/index.html", RequiredText: []string{"Secret"}}, "missing_text:Secret"},
		{"no text", PreflightSpec{Entry: "dist/index.html", RequiredText: []string{""}}, "missing_text:"},
		{"no element", PreflightSpec{Entry: "dist/index.html", RequiredSelectors: []string{"#root p"}}, "missing_selector:#root p"},
		{"no scripts", PreflightSpec{Entry: "dist/noscript.html", RequireScripts: true}, "no_script_tags:dist/noscript.html"},
		{"scripts not required", PreflightSpec{Entry: "dist/noscript.html"}, ""},
		{"commented script", PreflightSpec{Entry: "dist/commented.html", RequireScripts: true}, "no_script_tags:dist/commented.html"},
		{"script missing", PreflightSpec{Entry: "dist/missing.html", WebRoot: "dist"}, "script_missing:gone.js"},
		{"base", PreflightSpec{Entry: "dist/based.html", RequireScripts: true}, ""},
		{"base elsewhere", PreflightSpec{Entry: "dist/away.html", RequireScripts: true}, ""},
		{"encoded", PreflightSpec{Entry: "dist/enc.html"}, ""},
		{"empty script", PreflightSpec{Entry: "dist/zero.html"}, "script_too_small:zero.js"},
		{"small", PreflightSpec{Entry: "dist/index.html", MinScriptBytes: 100}, "script_too_small:/app.js?v=1#x"},
		{"large", PreflightSpec{Entry: "dist/index.html", MaxScriptKB: 2}, "script_too_large:js/big.js"},
	} {
		res, err := Preflight(root, tt.spec)
		must(t, err)
		if got := strings.Join(res.Errors, ", "); got != tt.errors || res.OK != (tt.errors == "") {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.errors)
		}
	}
	res, err := Preflight(root, PreflightSpec{Entry: "dist/index.html", RequiredSelectors: []string{"a > b"}})
	must(t, err)
	if res.OK || !strings.HasPrefix(res.Errors[0], "unsupported_selector:a > b (selector not supported") {
		t.Errorf("got %+v", res)
	}
	m := decode(t, pretty(res))
	keys(t, m, "ok entry scripts checks errors")
	scripts := m["scripts"].([]any)
	if len(scripts) != 4 || scripts[2].(map[string]any)["external"] != true || scripts[0].(map[string]any)["path"] != "dist/app.js" {
		t.Errorf("scripts: %v", scripts)
	}
	if _, err := Preflight(root+"/gone", PreflightSpec{}); err == nil {
		t.Error("a repository that is not there is no error")
	}
}
