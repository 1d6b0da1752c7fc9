package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// The order goes to the shim as one JSON value on descriptor 3, the report comes back on descriptor 4: one JSON value
// before bash is executed, and a second one if that fails. Both pipes end with the exec.

const (
	// ShimArg is the hidden first argument that makes our binary the shim. main (and TestMain of every package whose
	// tests run recoveries) looks for it before anything else and calls ShimMain.
	ShimArg = "__exec"

	orderFD  = 3
	reportFD = 4

	maxOrder   = 16 << 20
	maxReport  = 64 << 10 // what a pipe holds: the shim must not wait for its reader
	reportWait = 2 * time.Second
	maxNote    = 400 // bytes
	maxNotes   = 40
)

// bytesOf is for paths and texts: JSON would replace what is not UTF-8.
type bytesOf []byte

// order is what the shim is to do.
type order struct {
	Command bytesOf   `json:"command"`
	Shell   bytesOf   `json:"shell"`
	Env     []bytesOf `json:"env"`

	Repo   bytesOf `json:"repo"`
	Dir    bytesOf `json:"dir"`
	RepoID FileID  `json:"repo_id"`
	DirID  FileID  `json:"dir_id"`

	Writable  []bytesOf `json:"writable"`
	Protected []bytesOf `json:"protected"`
	Hidden    []bytesOf `json:"hidden"`

	Required Level `json:"required,omitempty"`
	// Landlock is false if it is not to be used. Mount: the shim was started in a mount namespace of its own, to be
	// furnished.
	Landlock bool `json:"landlock"`
	Mount    bool `json:"mount"`
	Probe    bool `json:"probe,omitempty"` // everything is tried on harmless places, and nothing executed

	// Agent is not nil if what agents see is to be prepared, and no recovery run. Nothing above counts then.
	Agent *agentOrder `json:"agent,omitempty"`
}

// Kinds of failure.
const (
	badPlace = "place" // the working directory is another one than was decided on
	tooWeak  = "level" // Required is not met
	noMount  = "mount" // the mount namespace cannot be furnished; without one it may work
	broken   = "setup"
)

// report is what the shim did.
type report struct {
	Level       Level    `json:"level"`
	LandlockABI int      `json:"landlock_abi"`
	Notes       []string `json:"notes,omitempty"`
	// Failure is why nothing was executed, one of the kinds, "" if it is about to be; Text says it for the user.
	Failure string `json:"failure,omitempty"`
	Text    string `json:"text,omitempty"`
}

func (r *report) note(format string, args ...any) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, clip(fmt.Sprintf(format, args...)))
	}
}

func (r *report) fail(kind string, err error) { r.Failure, r.Text = kind, clip(err.Error()) }

func clip(s string) string { return text.Cut(s, maxNote) }

func convert[To, From ~string | ~[]byte](in []From) []To {
	out := make([]To, 0, len(in))
	for _, s := range in {
		out = append(out, To(s))
	}
	return out
}

// line is the two pipes between Run and the shim.
type line struct {
	theirs []*os.File // the shim's ends: order, report
	order  *os.File
	back   *os.File
	sent   chan struct{} // nil: no order was sent
}

// openLine makes the pipes.
func openLine() (*line, error) {
	in, send, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("writing the shim's order: %w", err)
	}
	back, out, err := os.Pipe()
	if err != nil {
		in.Close()
		send.Close()
		return nil, fmt.Errorf("writing the shim's order: %w", err)
	}
	return &line{theirs: []*os.File{in, out}, order: send, back: back}, nil
}

// send begins to send the order.
func (l *line) send(o *order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("writing the shim's order: %w", err)
	}
	l.sent = make(chan struct{})
	go func() {
		defer close(l.sent)
		// A write fails only if the shim died, which is found out elsewhere.
		_, _ = l.order.Write(append(text, '\n'))
		l.order.Close()
	}()
	return nil
}

// report is what the shim said.
func (l *line) report() (report, error) {
	l.theirs[1].Close() // else it would not end
	return readReport(l.back)
}

// close returns when nothing is sent any more.
func (l *line) close() {
	for _, f := range append(l.theirs, l.back) {
		f.Close()
	}
	if l.sent == nil {
		l.order.Close()
		return
	}
	<-l.sent
}

// readReport reads what the shim said, when it has ended. No report means that it died.
func readReport(r *os.File) (report, error) {
	var rep report
	if err := r.SetReadDeadline(time.Now().Add(reportWait)); err != nil {
		return rep, fmt.Errorf("reading the shim's report: %w", err)
	}
	d := json.NewDecoder(io.LimitReader(r, 2*maxReport))
	said := false
	for {
		var next report
		err := d.Decode(&next)
		switch {
		case errors.Is(err, io.EOF) && said:
			return rep, nil
		case errors.Is(err, io.EOF):
			return rep, errors.New("the shim said nothing")
		case err != nil:
			return rep, fmt.Errorf("reading the shim's report: %w", err)
		}
		rep, said = next, true
	}
}
