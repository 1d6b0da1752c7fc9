package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
)

func msec(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// count formats a number with its noun: "1 iteration", "2 iterations".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func loopFile(repo, id, name string) string {
	return filepath.Join(repo, ".superloop", "loops", id, name)
}

// relTo returns path relative to the repository if the repository is the current folder, else path as it is.
func relTo(repo, path string) string {
	if wd, err := os.Getwd(); err == nil && wd == repo {
		if rel, err := filepath.Rel(wd, path); err == nil {
			return rel
		}
	}
	return path
}

// table prints rows below their heads. Tabs separate the cells.
func table[T any](w io.Writer, heads string, rows []T, cells func(T) string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, heads)
	for _, r := range rows {
		fmt.Fprintln(t, cells(r))
	}
	return t.Flush()
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }

// shorten formats a number with at most five digits and a unit (k, M, G). It rounds down, so it never shows more than
// there is.
func shorten(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%d.%02dG", n/1e9, n%1e9/1e7)
	case n >= 1e6:
		return fmt.Sprintf("%d.%02dM", n/1e6, n%1e6/1e4)
	case n >= 1e4:
		return fmt.Sprintf("%d.%dk", n/1e3, n%1e3/1e2)
	}
	return fmt.Sprint(n)
}

// dollars formats an amount with four decimals below one dollar and with two above. It shows an amount that rounds to
// zero as "<$0.0001".
func dollars(usd float64, round func(float64) float64) string {
	digits, unit := 4, 1e4
	if usd >= 1 {
		digits, unit = 2, 1e2
	}
	// In binary a whole number of cents may be slightly too small, so the amount is rounded to 1e-9 dollars first.
	shown := round(math.Round(usd*1e9)/1e9*unit+1e-6) / unit
	if shown == 0 && usd > 0 {
		return "<$0.0001"
	}
	return fmt.Sprintf("$%.*f", digits, shown)
}

// shortTime formats a duration that may be much shorter than a second.
func shortTime(ms int64) string {
	switch {
	case ms < 1:
		return "<1ms"
	case ms < 1000:
		return fmt.Sprintf("%dms", ms)
	}
	return render.Duration(msec(ms))
}

// columns returns the width of a terminal, 80 if the terminal does not report it.
func columns(f *os.File) int {
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 {
		return int(ws.Col)
	}
	return 80
}

// typed returns the verb as an operator types it, with the program and the parent verb: "superloop config diff".
func typed(c *cli.Context) string { return cmp.Or(c.Command.HelpName, "superloop") }

// release is set by the release build (-ldflags "-X main.release=1.2.3").
var release string

// version returns the release, else the version that the module system knows, else "dev".
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

func (a *app) version(c *cli.Context) error {
	return a.told(c, map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH},
		"superloop %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// reportsText holds the templates for the output of policy check, inbox and notify list.
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

// report prints a template of reports.tmpl with data, or the facts with --json.
func (a *app) report(c *cli.Context, facts any, name string, data any) error {
	var failed error
	err := a.write(c, facts, func(w io.Writer) { failed = reports().ExecuteTemplate(w, name, data) })
	return cmp.Or(failed, err)
}
