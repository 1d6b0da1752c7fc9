// Package page is the page of the daemon: a shell in HTML, styles, and modules of JavaScript, which are embedded. It holds
// no data and knows no secret. What it shows, and what it changes, it asks of server/api, as any program does.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed web
var web embed.FS

// Policy is the content security policy of everything that Handler sends: nothing that is not of this origin, nothing
// inline, no frame, and no text that becomes a script or HTML.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
	"form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types superloop-worker"

// screens are the first words of the paths at which the shell answers. The rest of a path names what is shown.
var screens = []string{"", "loops", "questions", "remediation", "agents", "cost", "policy", "settings"}

var types = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

type file struct {
	kind, tag   string
	plain, gzip []byte
}

// withoutComments empties the lines of a module that hold nothing but a comment. These are a tenth of what a browser would load.
// The other lines, and their numbers, stay as they are. No text of a module has more than one line.
func withoutComments(module []byte) []byte {
	lines, inside := strings.Split(string(module), "\n"), false
	for i, line := range lines {
		line = strings.TrimSpace(line)
		end := strings.Index(line, "*/")
		switch {
		case inside:
			inside = end < 0
		case strings.HasPrefix(line, "//"):
		case strings.HasPrefix(line, "/**") && (end < 0 || end == len(line)-2):
			inside = end < 0
		default:
			continue
		}
		lines[i] = ""
	}
	return []byte(strings.Join(lines, "\n"))
}

// Handler returns what answers GET and HEAD of the page's files and of the paths of its screens. It keeps all files in
// memory. Anything else is not found, or not allowed.
func Handler() http.Handler {
	files := map[string]file{}
	_ = fs.WalkDir(web, "web", func(name string, e fs.DirEntry, err error) error { // an embedded file can be read
		if err != nil || e.IsDir() {
			return err
		}
		data, err := web.ReadFile(name)
		if err != nil {
			return err
		}
		if path.Ext(name) == ".js" {
			data = withoutComments(data)
		}
		sum := sha256.Sum256(data)
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		_, _ = z.Write(data) // a buffer takes everything
		_ = z.Close()
		files[strings.TrimPrefix(name, "web")] = file{types[path.Ext(name)], hex.EncodeToString(sum[:12]), data, small.Bytes()}
		return nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", Policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cross-Origin-Embedder-Policy", "require-corp")
		head.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), usb=(), payment=()")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			head.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		name := r.URL.Path
		if first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/"); slices.Contains(screens, first) {
			name = "/index.html"
		}
		f, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		send(w, r, f)
	})
}

func send(w http.ResponseWriter, r *http.Request, f file) {
	head := w.Header()
	body, tag := f.plain, `"`+f.tag+`"`
	head.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body, tag = f.gzip, `"`+f.tag+`-gzip"`
		head.Set("Content-Encoding", "gzip")
	}
	head.Set("Content-Type", f.kind)
	head.Set("Cache-Control", "no-cache") // it is asked for again, and not sent again
	head.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client has gone
	}
}
