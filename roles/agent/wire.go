package agent

import (
	"bytes"
	"path/filepath"

	"github.com/superloop/superloop/internal/door"
)

const (
	maxWire   = 64 << 20 // bounds a line of a protocol, in bytes; it is more than any request of a CLI needs
	maxMemory = 64 << 10 // bounds what is taken of a file with instructions for agents, in bytes
)

// wireLines cuts what a CLI prints into the lines of its protocol. The zero value is ready.
type wireLines struct {
	line []byte // the present line, as far as it has come
	lost bool   // the rest of the present line is dropped
}

// cut calls each for every line that p completes, without its line break; the line is valid during the call only. A line
// of more than maxWire bytes is dropped, and tooLong called instead.
func (w *wireLines) cut(p []byte, each func(line []byte), tooLong func()) {
	for len(p) > 0 {
		piece, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		if !w.lost && len(w.line)+len(piece) > maxWire {
			w.lost, w.line = true, nil
			tooLong()
		}
		if !w.lost {
			w.line = append(w.line, piece...)
		}
		if !whole {
			return
		}
		if !w.lost {
			each(w.line)
		}
		w.line, w.lost = w.line[:0], false
		if cap(w.line) > 1<<20 {
			w.line = nil
		}
	}
}

// remembered puts the repository's instructions for agents in front of the prompt: a CLI that reads no settings of the
// repository does not read them either.
func remembered(req Request, file, prompt string) string {
	memory, _, err := door.Ends(filepath.Join(req.WorkDir, file), maxMemory, 0)
	if err != nil || memory == "" {
		return prompt
	}
	return file + " of this repository says:\n\n" + memory + "\n\n" + prompt
}
