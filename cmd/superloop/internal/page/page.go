// Package page makes the report of a run: one file of HTML that needs nothing else. It has no script, loads nothing, and
// forbids both by its content security policy. html/template escapes all text, because agents wrote much of it.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/result"
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

// Bounds of what a page shows. The journal holds the rest.
const (
	maxIterations = 200
	maxChanges    = 500
	maxText       = 600 // characters of a foreign text
)

// view is what the template gets.
type view struct {
	result.Result
	Style    template.CSS
	Policy   string
	Made     time.Time
	Plot     *plot
	Timeline *timeline
	Count    int // of all iterations
	Older    int // iterations that are left out
	More     int // changed files that are left out
}

var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"ms":     func(n int64) string { return render.Duration(time.Duration(n) * time.Millisecond) },
		"at":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
		"clock":  func(t time.Time) string { return t.UTC().Format(time.TimeOnly) },
		"until":  func(from, to time.Time) string { return render.Duration(to.Sub(from)) },
		"words":  func(s any) string { return strings.ReplaceAll(render.Clean(str(s)), "_", " ") },
		"line":   func(s string) string { return text.Line(s, maxText) },
		"plain":  text.Plain,
		"cost":   result.Cost,
		"tokens": result.Tokens,
		"usd":    usd,
		"count":  func(n *int64) string { return orDash(n, render.Count) },
		"kind":   kind,
		"short":  func(s string) string { return s[:min(len(s), 12)] },
	}).Parse(pageText))
})

func str(s any) string {
	if st, ok := s.(loop.Status); ok {
		return string(st)
	}
	out, _ := s.(string)
	return out
}

func usd(v *float64) string {
	return orDash(v, func(v float64) string {
		return render.Dollars(v, func(f float64) float64 { return float64(int64(f + 0.5)) })
	})
}

func orDash[T any](v *T, format func(T) string) string {
	if v == nil {
		return "-"
	}
	return format(*v)
}

// kind returns the class of CSS for a word: good, bad, or plain.
func kind(word any) string {
	switch w := str(word); w {
	case "ok", "completed", "green", "verified", "true", "approved", "approve", "executed":
		return "good"
	case "", "open", "skipped", "n/a", "interrupted", "pending", "not run", "running", "paused", "unseen", "executed, not verified", "manual":
		return "plain"
	}
	return "bad"
}

// Write writes the page of a result. made is the time that it shows as its own.
func Write(w io.Writer, r result.Result, made time.Time) error {
	v := view{Result: r, Style: template.CSS(styleText), Made: made, Plot: plotOf(r), Timeline: timelineOf(r), Count: len(r.Iterations)} //nolint:gosec // the style is a file of this package
	sum := sha256.Sum256([]byte(styleText))
	v.Policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	if n := len(r.Iterations) - maxIterations; n > 0 {
		v.Older, v.Iterations = n, r.Iterations[n:]
	}
	if n := len(r.Work.Changes) - maxChanges; n > 0 {
		v.More, v.Work.Changes = n, r.Work.Changes[:maxChanges]
	}
	return pages().Execute(w, v)
}
