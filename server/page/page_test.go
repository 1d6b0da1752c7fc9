package page

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func get(method, name string, head ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, name, nil)
	for i := 0; i+1 < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"/": "text/html; charset=utf-8", "/loops/a%2f..%2fb": "text/html; charset=utf-8", "/questions/x": "text/html; charset=utf-8",
		"/app.js": "text/javascript; charset=utf-8", "/app.css": "text/css; charset=utf-8", "/icon.svg": "image/svg+xml"} {
		w := get("GET", name)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != kind {
			t.Errorf("%s: %d %s", name, w.Code, h.Get("Content-Type"))
		}
		for key, want := range map[string]string{"Content-Security-Policy": Policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-cache"} {
			if h.Get(key) != want {
				t.Errorf("%s: %s: %q", name, key, h.Get(key))
			}
		}
		if len(h.Values("Set-Cookie")) != 0 {
			t.Errorf("%s sets a cookie", name)
		}
		if again := get("GET", name, "If-None-Match", h.Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s again: %d, %d bytes", name, again.Code, again.Body.Len())
		}
		if head := get("HEAD", name); head.Code != http.StatusOK || head.Body.Len() != 0 || head.Header().Get("Content-Length") != h.Get("Content-Length") {
			t.Errorf("HEAD %s: %d, %d bytes", name, head.Code, head.Body.Len())
		}
		small := get("GET", name, "Accept-Encoding", "br, gzip")
		z, err := gzip.NewReader(small.Body)
		if err != nil || small.Header().Get("ETag") == h.Get("ETag") {
			t.Errorf("%s in gzip: %v, %s", name, err, small.Header().Get("ETag"))
			continue
		}
		var plain bytes.Buffer
		if _, err := plain.ReadFrom(z); err != nil || plain.String() != w.Body.String() {
			t.Errorf("%s in gzip is another one: %v", name, err)
		}
	}
	for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "base-uri 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(Policy, part) || strings.Contains(Policy, "unsafe") {
			t.Errorf("the policy is %q", Policy)
		}
	}
}

func TestNothingElse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"/x", "/web/app.js", "/app.js/", "/..%2fpage.go", "/page.go", "/%00", "/index.htm", "/API"} {
		if w := get("GET", name); w.Code != http.StatusNotFound || w.Header().Get("Content-Security-Policy") != Policy {
			t.Errorf("GET %s: %d", name, w.Code)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE"} {
		if w := get(method, "/"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

var (
	imported = regexp.MustCompile(`(?m)^(?:import|export) (?:[^'"]*? from )?'([^']+)'`)
	own      = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	inline   = regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:`)
	// What would make HTML or code of a text, or store a secret.
	unsafe = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|\beval\b|new Function|srcdoc|document\.cookie|sessionStorage|indexedDB|localStorage\.setItem\((?:'superloop\.theme'|seenKey)?`)
	stored = regexp.MustCompile(`^localStorage\.setItem\((?:'superloop\.theme'|seenKey)$`)
)

// TestFiles: what the page refers to is embedded, nothing is inline, and no text becomes HTML or code.
func TestFiles(t *testing.T) {
	t.Parallel()
	var script, style bytes.Buffer
	zs, zc := gzip.NewWriter(&script), gzip.NewWriter(&style)
	n := 0
	err := fs.WalkDir(web, "web", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := web.ReadFile(name)
		if err != nil {
			return err
		}
		text := string(data)
		if types[path.Ext(name)] == "" {
			t.Errorf("%s has no type", name)
		}
		if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), "://") {
			t.Errorf("%s refers to another site", name)
		}
		var refers []string
		switch path.Ext(name) {
		case ".js":
			n++
			_, err = zs.Write(get("GET", strings.TrimPrefix(name, "web")).Body.Bytes())
			for i, line := range strings.Split(text, "\n") {
				if strings.Count(strings.ReplaceAll(line, "\\`", ""), "`")%2 != 0 {
					t.Errorf("%s:%d: a text goes over lines, of which one could look like a comment", name, i+1)
				}
			}
			for _, m := range imported.FindAllStringSubmatch(text, -1) {
				refers = append(refers, path.Join(path.Dir(name), m[1]))
			}
			for _, m := range unsafe.FindAllString(text, -1) {
				if !stored.MatchString(m) {
					t.Errorf("%s: %s", name, m)
				}
			}
			if lines := strings.Count(text, "\n"); lines > 400 {
				t.Errorf("%s has %d lines", name, lines)
			}
		case ".css":
			_, err = zc.Write(data)
			if strings.Contains(text, "url(") || strings.Contains(text, "@import") {
				t.Errorf("%s loads something", name)
			}
		case ".html":
			for _, m := range own.FindAllStringSubmatch(text, -1) {
				refers = append(refers, "web"+m[1])
			}
			if m := inline.FindString(text); m != "" {
				t.Errorf("%s: %q is inline", name, m)
			}
		}
		for _, r := range refers {
			if _, err := web.ReadFile(r); err != nil {
				t.Errorf("%s refers to %s: %v", name, r, err)
			}
		}
		return err
	})
	if err := zs.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zc.Close(); err != nil || n < 10 {
		t.Fatal(err, n)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d scripts, %d bytes in gzip together; styles %d", n, script.Len(), style.Len())
	if script.Len() > 45<<10 || style.Len() > 10<<10 {
		t.Errorf("scripts take %d bytes in gzip, styles %d", script.Len(), style.Len())
	}
}

// TestComments: a browser gets no line that is a comment, and every other line as it is, at its number.
func TestComments(t *testing.T) {
	t.Parallel()
	module := "// one\nconst a = 1; // stays\n  /** one line */\n/**\n * more\n */\nclass X {\n  /** @type {number} */ b = 2;\n}\nconst c = 4\n  * 5;\n"
	if got := string(withoutComments([]byte(module))); got != "\nconst a = 1; // stays\n\n\n\n\nclass X {\n  /** @type {number} */ b = 2;\n}\nconst c = 4\n  * 5;\n" {
		t.Errorf("%q", got)
	}
	if data, err := web.ReadFile("web/text.js"); err != nil || get("GET", "/text.js").Body.String() != string(withoutComments(data)) {
		t.Error("the handler sends something else", err)
	}
}

// TestScreens: the shell answers where the page has a screen, and nowhere else.
func TestScreens(t *testing.T) {
	t.Parallel()
	app, err := web.ReadFile("web/app.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\['/([a-z]*)', '[A-Z]`).FindAllStringSubmatch(string(app), -1) {
		if w := get("GET", "/"+m[1]); w.Code != http.StatusOK {
			t.Errorf("the navigation leads to /%s: %d", m[1], w.Code)
		}
	}
}
