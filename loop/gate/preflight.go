package gate

import (
	"bytes"
	"net/url"
	"path"
	"strings"
)

const maxPage = 8 << 20 // bounds an HTML page, in bytes

// PreflightSpec holds the static checks of a built web page. WebRoot is the directory that a web server would serve;
// empty means the directory of the page. Entry is the path of the page, relative to the repository. An Entry that is
// not below WebRoot is relative to WebRoot. MinScriptBytes below 1 counts as 1. MaxScriptKB 0 means no bound.
type PreflightSpec struct {
	Entry             string
	WebRoot           string
	RequiredSelectors []string
	RequiredText      []string
	MinScriptBytes    int
	MaxScriptKB       int
	RequireScripts    bool
}

// PreflightResult is the "preflight" part of validation-results.json. Paths are relative to the repository. Each error
// has the form "code:detail".
type PreflightResult struct {
	OK      bool              `json:"ok"`
	Entry   PreflightEntry    `json:"entry"`
	Scripts []PreflightScript `json:"scripts"`
	Checks  []string          `json:"checks"` // the checks that passed
	Errors  []string          `json:"errors"`
}

// PreflightEntry describes the page.
type PreflightEntry struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	Bytes  int64  `json:"bytes"`
}

// PreflightScript describes one <script src>. The gate does not check an external script.
type PreflightScript struct {
	Src      string `json:"src"`
	External bool   `json:"external,omitempty"`
	Path     string `json:"path,omitempty"`
	Exists   bool   `json:"exists"`
	Bytes    int64  `json:"bytes"`
	OK       bool   `json:"ok"`
}

// Preflight checks a built page without a browser. The page must exist below the web root and must not be empty. Each
// required text must occur in the source outside of comments, or in the visible text. Each required selector must match
// an element. Each local <script src> must be a file whose size is within the bounds. If scripts are required, there
// must be at least one. A selector outside the supported subset fails. Preflight returns an error only if it cannot
// open the repository.
func Preflight(root string, spec PreflightSpec) (PreflightResult, error) {
	res := PreflightResult{Scripts: []PreflightScript{}, Checks: []string{}, Errors: []string{}}
	t, err := openTree(root)
	if err != nil {
		return res, err
	}
	defer t.close()
	t.preflight(spec, &res)
	if res.OK = len(res.Errors) == 0; res.OK {
		res.Checks = append(res.Checks, "preflight_ok")
	}
	return res, nil
}

func (r *PreflightResult) fail(code, detail string) { r.Errors = append(r.Errors, code+":"+detail) }

func (t *tree) preflight(spec PreflightSpec, res *PreflightResult) {
	res.Entry.Path = spec.Entry
	entry, err := t.rel(spec.Entry)
	if err != nil {
		res.fail("entry_not_found", spec.Entry+" ("+faultOf(err).reason+")")
		return
	}
	webRoot := path.Dir(entry)
	if spec.WebRoot != "" {
		if webRoot, err = t.rel(spec.WebRoot); err != nil {
			res.fail("web_root_not_found", spec.WebRoot+" ("+faultOf(err).reason+")")
			return
		}
		// The source page of a bundler often has the same name as the built page.
		if webRoot != "." && !strings.HasPrefix(entry, webRoot+"/") {
			entry = path.Join(webRoot, entry)
		}
	}
	data, err := t.read(entry, maxPage)
	if err != nil {
		res.fail("entry_not_found", entry+" ("+faultOf(err).Error()+")")
		return
	}
	res.Entry = PreflightEntry{Path: entry, Exists: true, Bytes: int64(len(data))}
	res.Checks = append(res.Checks, "entry_exists")
	if len(bytes.TrimSpace(data)) == 0 {
		res.fail("entry_empty", entry)
		return
	}
	p, err := readPage(string(data))
	if err != nil {
		res.fail("entry_unreadable", err.Error())
		return
	}
	for _, s := range spec.RequiredSelectors {
		sel, err := parseSelector(s)
		switch {
		case err != nil:
			res.fail("unsupported_selector", s+" ("+err.Error()+")")
		case !p.has(sel):
			res.fail("missing_selector", s)
		default:
			res.Checks = append(res.Checks, "selector:"+s)
		}
	}
	for _, text := range spec.RequiredText {
		squeezed := strings.Join(strings.Fields(text), " ")
		if squeezed == "" || !strings.Contains(p.source, text) && !strings.Contains(p.text, squeezed) {
			res.fail("missing_text", text)
			continue
		}
		res.Checks = append(res.Checks, "text:"+text)
	}
	t.scripts(p, entry, webRoot, spec, res)
}

func (t *tree) scripts(p *page, entry, webRoot string, spec PreflightSpec, res *PreflightResult) {
	// doc is the URL under which a server would serve the page. The rules for URLs then tell which file "../x.js?v=1"
	// is, and keep it below the web root.
	doc := &url.URL{Scheme: "http", Host: "preflight.invalid", Path: "/" + strings.TrimPrefix(entry, webRoot+"/")}
	base := doc
	for _, e := range p.elements {
		if href, ok := attr(e, "href"); e.Data == "base" && ok && base == doc {
			if u, err := doc.Parse(href); err == nil {
				base = u
			}
		}
	}
	for _, e := range p.elements {
		src, _ := attr(e, "src")
		if src = strings.Trim(src, " \t\r\n\f"); e.Data != "script" || src == "" {
			continue
		}
		script := PreflightScript{Src: src}
		u, err := base.Parse(src)
		switch {
		case err != nil:
			res.fail("script_missing", src)
		case u.Host != doc.Host || u.Scheme != doc.Scheme:
			script.External, script.OK = true, true
		default:
			script.Path = path.Join(webRoot, u.Path)
			t.script(&script, spec, res)
		}
		res.Scripts = append(res.Scripts, script)
	}
	if spec.RequireScripts && len(res.Scripts) == 0 {
		res.fail("no_script_tags", entry)
	}
}

// script judges one local script.
func (t *tree) script(s *PreflightScript, spec PreflightSpec, res *PreflightResult) {
	info, err := t.root.Stat(s.Path)
	if err != nil || !info.Mode().IsRegular() {
		res.fail("script_missing", s.Src)
		return
	}
	s.Exists, s.Bytes = true, info.Size()
	switch {
	case s.Bytes < int64(max(1, spec.MinScriptBytes)):
		res.fail("script_too_small", s.Src)
	case spec.MaxScriptKB > 0 && s.Bytes > int64(spec.MaxScriptKB)*1024:
		res.fail("script_too_large", s.Src)
	default:
		s.OK = true
	}
}
