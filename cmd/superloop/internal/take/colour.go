package take

import (
	"bytes"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// Coloured returns a patch for a terminal: with the colours of git, and without the control characters that files can
// hold.
func Coloured(patch []byte) []byte {
	const bold, red, green, cyan, reset = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[m"
	var out bytes.Buffer
	head := false // in the lines between the names of the file and its first hunk
	for line := range strings.Lines(string(patch)) {
		line = strings.TrimSuffix(text.Plain(line), "\n")
		colour := ""
		switch {
		case strings.HasPrefix(line, "diff --git "):
			head, colour = true, bold
		case strings.HasPrefix(line, "@@ "):
			head, colour = false, cyan
		case head:
			colour = bold
		case strings.HasPrefix(line, "+"):
			colour = green
		case strings.HasPrefix(line, "-"):
			colour = red
		}
		out.WriteString(colour + line)
		if colour != "" {
			out.WriteString(reset)
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}
