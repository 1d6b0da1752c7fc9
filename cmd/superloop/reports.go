package main

import (
	_ "embed"
	"io"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
)

// reportsText has what policy check, inbox and notify list print.
//
//go:embed reports.tmpl
var reportsText string

var reports = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("reports").Funcs(template.FuncMap{
		"show": text.Display, "clean": render.Clean, "count": count,
		"add":   func(x, y int) int { return x + y },
		"ms":    func(n int64) string { return render.Duration(msec(n)) },
		"until": func(t time.Time) string { return render.Duration(max(0, time.Until(t))) },
		"lines": func(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") },
	}).Parse(reportsText))
})

// report prints a part of reports.tmpl.
func (a *app) report(name string, data any) error {
	var failed error
	err := a.write(func(w io.Writer) { failed = reports().ExecuteTemplate(w, name, data) })
	if failed != nil {
		return failed
	}
	return err
}
