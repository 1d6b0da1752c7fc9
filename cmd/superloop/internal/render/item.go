package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/roles/agent/item"
)

// itemColumn is the width of the column of times in front of an item.
const itemColumn = len(time.TimeOnly) + 1

// PrintItem writes an item as ItemLines returns it, in the form of the stream.
func PrintItem(w io.Writer, f screen.Form, it item.Item) error {
	lines, tone := ItemLines(it, f.Width())
	for i, line := range lines {
		lines[i] = f.Paint(tone, line) + "\n"
	}
	_, err := io.WriteString(w, strings.Join(lines, ""))
	return err
}

// ItemLines returns an item as lines of at most width columns, and its tone. A width of 0 stands for a line of any
// length. What the agent says and what failed is wrapped. A call and a result that is no failure take one line and are
// cut. Lines of a program that is no agent are wrapped and have no column of times.
func ItemLines(it item.Item, width int) ([]string, screen.Tone) {
	said, tone := itemText(it)
	if it.Kind == item.Plain {
		return screen.Wrap(said, width, 4), tone
	}
	at := strings.Repeat(" ", itemColumn)
	if !it.At.IsZero() {
		at = it.At.Local().Format(time.TimeOnly) + " "
	}
	if it.Sub {
		at += "| "
	}
	line := at + said
	cuts := it.Kind == item.Call || it.Kind == item.Thought || it.Kind == item.Result && !it.Failed
	if cuts && width > 0 && screen.Cells(line) > width {
		return []string{strings.TrimRight(screen.Fit(line, width), " ")}, tone
	}
	return screen.Wrap(line, width, len(at)+2), tone
}

func itemText(it item.Item) (said string, tone screen.Tone) {
	if it.Failed {
		tone = screen.Bad
	}
	switch it.Kind {
	case item.Thought:
		return "(" + it.Text + ")", screen.Faint
	case item.Call:
		return strings.TrimSuffix("> "+it.Tool+": "+it.Text, ": "), screen.Strong
	case item.Result:
		if !it.Failed {
			tone = screen.Faint
		}
		return "  " + outcome("ok", it) + more(it), tone
	case item.Note:
		return "* " + it.Text, tone
	case item.End:
		if !it.Failed {
			tone = screen.Good
		}
		return "= " + outcome("done", it) + spent(it), tone
	}
	return it.Text, tone
}

// outcome says whether it went well, and the text behind a colon.
func outcome(well string, it item.Item) string {
	if it.Failed {
		well = "failed"
	}
	if it.Text == "" {
		return well
	}
	return well + ": " + it.Text
}

// more says how much a result printed besides its first line, and how long the call took.
func more(it item.Item) string {
	var s []string
	switch {
	case it.Lines > 1:
		s = append(s, Number(int(it.Lines), "line"))
	case it.Bytes > int64(len(it.Text))+1:
		s = append(s, Bytes(it.Bytes))
	}
	if it.Took > 0 {
		s = append(s, ShortTime(it.Took.Milliseconds()))
	}
	if len(s) == 0 {
		return ""
	}
	return " (" + strings.Join(s, ", ") + ")"
}

// spent says what a turn has used, as far as the CLI tells it.
func spent(it item.Item) (s string) {
	if it.Tokens != nil {
		s += fmt.Sprintf(", %s tokens", Count(*it.Tokens))
	}
	if it.CostUSD != nil {
		s += fmt.Sprintf(", $%.4f", *it.CostUSD)
	}
	if it.Took > 0 {
		s += ", " + ShortTime(it.Took.Milliseconds())
	}
	return s
}
