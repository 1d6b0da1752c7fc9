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

// count is "1 iteration", "2 iterations".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func loopFile(repo, id, name string) string {
	return filepath.Join(repo, ".superloop", "loops", id, name)
}

// relTo is path as seen from the current folder when that is shorter to read.
func relTo(repo, path string) string {
	if wd, err := os.Getwd(); err == nil && wd == repo {
		if rel, err := filepath.Rel(wd, path); err == nil {
			return rel
		}
	}
	return path
}

// table prints rows, whose cells are parted by tabs, below their heads.
func table[T any](w io.Writer, heads string, rows []T, cells func(T) string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, heads)
	for _, r := range rows {
		fmt.Fprintln(t, cells(r))
	}
	return t.Flush()
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }

// shorten keeps three to five digits, and never says more than there is.
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

// dollars has four decimals below one dollar and two above; what is too little for that is not shown as nothing.
func dollars(usd float64, round func(float64) float64) string {
	digits, unit := 4, 1e4
	if usd >= 1 {
		digits, unit = 2, 1e2
	}
	// A whole number of cents may be a hair below itself in binary.
	shown := round(math.Round(usd*1e9)/1e9*unit+1e-6) / unit
	if shown == 0 && usd > 0 {
		return "<$0.0001"
	}
	return fmt.Sprintf("$%.*f", digits, shown)
}

// shortTime is a time that may be far less than a second.
func shortTime(ms int64) string {
	switch {
	case ms < 1:
		return "<1ms"
	case ms < 1000:
		return fmt.Sprintf("%dms", ms)
	}
	return render.Duration(msec(ms))
}

// columns is the width of a terminal, 80 when it does not say.
func columns(f *os.File) int {
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 {
		return int(ws.Col)
	}
	return 80
}

// typed is the verb as it is typed, with the program and the verb above it: "superloop config diff".
func typed(c *cli.Context) string { return cmp.Or(c.Command.HelpName, "superloop") }

// release is set by the release build (-ldflags "-X main.release=1.2.3").
var release string

// version is the release, else what the module system knows, else "dev".
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

// report prints a part of reports.tmpl, or with --json the facts.
func (a *app) report(c *cli.Context, facts any, name string, data any) error {
	var failed error
	err := a.write(c, facts, func(w io.Writer) { failed = reports().ExecuteTemplate(w, name, data) })
	return cmp.Or(failed, err)
}
