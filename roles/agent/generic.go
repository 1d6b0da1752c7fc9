package agent

import "github.com/superloop/superloop/internal/proc"

// generic runs any command as it is configured. It injects nothing, not even
// --model: a script that does not know the flag would fail on it. A command
// that wants the model says {model}.
type generic struct{}

func (generic) Name() string        { return "generic" }
func (generic) Matches(string) bool { return true }

func (generic) Command(req Request, environ []string) (Command, error) {
	return assemble(req, environ, nil, nil)
}

func (generic) Profile() Profile { return Profile{} }

func (generic) Stream(Request) Stream { return &plainStream{} }

// plainStream reads output of which only the lines are known.
type plainStream struct {
	out, err lineTail
	last     string
}

func (s *plainStream) Stdout(p []byte) { s.note(s.out.feed(p)) }

// Stderr counts as well: many CLIs tell their progress, and all their
// start-up errors, there.
func (s *plainStream) Stderr(p []byte) { s.note(s.err.feed(p)) }

func (s *plainStream) note(line string) {
	if line != "" {
		s.last = line
	}
}

// Settled: of plain text nobody can tell.
func (s *plainStream) Settled() Settled { return Going }

func (s *plainStream) LastLine() string { return s.last }

func (s *plainStream) Finish(proc.Result) Learned {
	s.note(s.err.rest())
	s.note(s.out.rest())
	return Learned{}
}
