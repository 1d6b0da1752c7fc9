package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/verify"
)

// CheckRun is one command of a verification.
type CheckRun struct {
	Command string
	Exit    Exit
	Output  string
}

// maxOutput bounds the lines of a tool's output that a person is shown.
const maxOutput = 6

// Verification writes for a person what a verification has found. What the tool
// has printed is inert in it.
func Verification(w io.Writer, tool, label string, out verify.Outcome, runs []CheckRun) {
	name := Clean(tool)
	if label != "" {
		name += " (" + Clean(label) + ")"
	}
	repaired := out.Repair != nil && out.Repair.Succeeded
	switch {
	case out.Works && repaired:
		fmt.Fprintf(w, "%s works; its check asked the wrong question\n", name)
	case out.Works:
		fmt.Fprintf(w, "%s works\n", name)
	case out.Analysis.Broken:
		fmt.Fprintf(w, "%s is broken: %s\n", name, inert(out.Why))
	default:
		fmt.Fprintf(w, "%s: nothing shows that it works: %s\n", name, inert(out.Why))
	}
	for _, r := range runs {
		fmt.Fprintf(w, "  $ %s   (%s)\n", inert(r.Command), r.Exit)
		n := 0
		for line := range strings.Lines(r.Output) {
			if n++; n > maxOutput {
				fmt.Fprintln(w, "    ...")
				break
			}
			fmt.Fprintf(w, "    %s\n", inert(strings.TrimRight(line, "\r\n")))
		}
	}
	if !repaired {
		return
	}
	v := out.Verify
	mode := v.Mode
	if mode == "" {
		mode = catalog.ModeVersion
	}
	fmt.Fprintf(w, "%s, by %s; the check that passes:\n", inert(out.Analysis.Why), strings.ReplaceAll(out.Repair.Method, "_", " "))
	fmt.Fprintf(w, "  verify: {command: %s, mode: %s", yamlText(v.Command), mode)
	if v.Pattern != "" {
		fmt.Fprintf(w, ", pattern: %s", yamlText(v.Pattern))
	}
	if v.ExitCode != 0 {
		fmt.Fprintf(w, ", exit_code: %d", v.ExitCode)
	}
	fmt.Fprintln(w, "}")
}

// yamlText is s as a YAML scalar in single quotes.
func yamlText(s string) string { return "'" + strings.ReplaceAll(inert(s), "'", "''") + "'" }
