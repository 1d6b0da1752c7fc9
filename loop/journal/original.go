package journal

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

// maxOriginalLine bounds the first line of a file that Original reads, in bytes.
const maxOriginalLine = 1 << 20

// Original reports whether the file at path is a journal of the bash original (superloop.sh): its first line is an event
// with a time and a name, and without the number that each event of this superloop has. A file that cannot be read is
// none.
func Original(path string) bool {
	f, _, err := door.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, maxOriginalLine)).ReadBytes('\n')
	if err != nil {
		return false
	}
	var e struct {
		Seq              json.RawMessage `json:"seq"`
		Timestamp, Event string
	}
	return text.Decode(line, &e) == nil && e.Seq == nil && e.Timestamp != "" && e.Event != ""
}
