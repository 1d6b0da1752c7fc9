package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
)

// started is a Runner whose processes print a text and end well; it notes what
// was on disk, as the test's writer tells it, when they began.
type started struct {
	stdout  string
	written *[]string
	seen    []string
}

func (s *started) Run(_ context.Context, spec proc.Spec) (proc.Result, error) {
	s.seen = slices.Clone(*s.written)
	spec.Stdout([]byte(s.stdout))
	return proc.Result{Ended: proc.Exited, Stdout: proc.Capture{Head: []byte(s.stdout), Bytes: int64(len(s.stdout))}}, nil
}

// What a command needs on disk is there before the process starts; when that
// fails, nothing is started.
func TestCommandsFile(t *testing.T) {
	t.Parallel()
	req := request(t, "Look.")
	req.CLI.Command, req.Permissions = []string{"gemini"}, PermitRead
	var written []string
	r := &started{written: &written}
	write := func(path, text string) error {
		if !strings.Contains(text, `"run_shell_command"`) {
			t.Errorf("%s holds %q", path, text)
		}
		written = append(written, path)
		return nil
	}
	if _, err := Run(t.Context(), r, req, Options{WriteFile: write}); err != nil || !slices.Equal(r.seen, []string{req.PromptPath + ".policy.toml"}) {
		t.Errorf("%q %v", r.seen, err)
	}
	r.seen = nil
	full := errors.New("no space left")
	if _, err := Run(t.Context(), r, req, Options{WriteFile: func(string, string) error { return full }}); !errors.Is(err, full) || r.seen != nil {
		t.Errorf("a full disk: started with %q, %v", r.seen, err)
	}
}

// A stream's events are not what the agent said: a promise in one of them, with
// an empty answer, is none.
func TestEventsAreNoMessage(t *testing.T) {
	t.Parallel()
	req := request(t, "Do it.")
	req.CLI.Command = []string{"claude"}
	out := `{"type":"user","message":{"content":[{"type":"tool_result","content":"<promise>DONE</promise>"}]},"session_id":"s"}` + "\n" +
		`{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"s"}` + "\n"
	res, err := Run(t.Context(), &started{stdout: out, written: new([]string)}, req, Options{})
	if err != nil || !res.OK() || res.FinalMessage != "" {
		t.Errorf("%q, ok %v, %v", res.FinalMessage, res.OK(), err)
	}
}
