package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/stats"
	"github.com/superloop/superloop/recovery/failures"
)

// statsText has what stats says in words; the head of the file has its syntax.
//
//go:embed stats.txt
var statsText string

var statsSentences = sync.OnceValue(func() *template.Template {
	return render.Sentences(statsText, template.FuncMap{
		"count": count, "percent": percent, "spread": spreadText, "tallied": tallied,
		"ms":         func(n int64) string { return render.Duration(msec(n)) },
		"twoDigits":  func(n float64) string { return fmt.Sprintf("%.2f", n) },
		"triedAgain": func(f failures.Figures) int { return max(0, f.Failures-f.Reassigned-f.Analysed-f.Escalated-f.Waited) },
		"helped": func(r failures.Rate) string {
			return fmt.Sprintf("%d of %d helped (%s)", r.Runs-r.Failures, r.Runs, percent(1-r.Rate))
		},
		"types": func(e stats.Escalations) string {
			var types []string
			for _, t := range e.ByType {
				types = append(types, fmt.Sprintf("%d %s", t.Count, render.Clean(t.Name)))
			}
			return strings.Join(types, ", ")
		},
		"list": func(by string, parts ...string) string {
			return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), by)
		},
		"after": func(what string, s failures.Spread) string {
			if s.Count == 0 {
				return ""
			}
			return what + " after " + timesText(s)
		},
		"news": func(n int, what, became string) string {
			if n == 0 {
				return ""
			}
			return count(n, what) + " " + became
		},
	})
})

// sentences are those of stats.txt with these names, without the empty ones.
func sentences(data any, names ...string) []string {
	var out []string
	for _, name := range names {
		var b strings.Builder
		if err := statsSentences().ExecuteTemplate(&b, name, data); err != nil {
			b.WriteString(err.Error())
		}
		if b.Len() > 0 {
			out = append(out, b.String())
		}
	}
	return out
}

// recoveryLines are what became of recoveries and questions; nothing where there were none.
func recoveryLines(r stats.Recovery) []string {
	return sentences(r, "recoveries", "automatic", "approved", "remediation", "questions")
}

func tallied(rates []failures.Rate) string {
	var out []string
	for _, r := range rates {
		out = append(out, fmt.Sprintf("%d %s", r.Runs, orNotTold(r.Name, "not told")))
	}
	return strings.Join(out, ", ")
}

// orNotTold is a name from a journal, or what stands for an empty one.
func orNotTold(name, none string) string {
	if name = render.Clean(name); name != "" {
		return name
	}
	return none
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }

// spreadText is one duration, or the median of several and how far they go.
func spreadText(s stats.Spread) string {
	switch s.Count {
	case 0:
		return "-"
	case 1:
		return render.Duration(msec(*s.MaxMS))
	}
	return fmt.Sprintf("%s (median; 90 %%: %s, max %s)", render.Duration(msec(*s.MedianMS)), render.Duration(msec(*s.P90MS)), render.Duration(msec(*s.MaxMS)))
}

// timesText is spreadText of what may take far less than a second.
func timesText(s failures.Spread) string {
	if s.Count == 1 {
		return shortTime(s.Worst)
	}
	return fmt.Sprintf("%s (median; 90 %%: %s, max %s)", shortTime(s.Median), shortTime(s.P90), shortTime(s.Worst))
}

func shortTime(ms int64) string {
	switch {
	case ms < 1:
		return "<1ms"
	case ms < 1000:
		return fmt.Sprintf("%dms", ms)
	}
	return render.Duration(msec(ms))
}
