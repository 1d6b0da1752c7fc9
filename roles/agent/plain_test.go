package agent

import (
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// A program without an adapter that fails is waited for if its last words are about a limit or the network, and only then.
func TestPlainFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, out, err string
		code           int
		want           class.Class
		limited        bool
	}{
		{"a limit", "", "Error: HTTP 429 Too Many Requests, try again in 20 minutes\n", 1, class.Limit, true},
		{"a limit on standard output", "working\nrate limit exceeded\n", "", 1, class.Limit, true},
		{"an overloaded provider", "", "request failed with status code 529\n", 1, class.Overloaded, false},
		{"an overloaded provider, as JSON", "", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 1, class.Overloaded, false},
		{"a gateway", "", "<h1>502 Bad Gateway</h1>\n", 2, class.Overloaded, false},
		{"the network", "", "TypeError: fetch failed\n  cause: Error: connect ECONNREFUSED 127.0.0.1:8080\n", 1, class.Network, false},
		{"it succeeded", "", "HTTP 429, waited and went on\n", 0, class.None, false},
		{"long ago", "HTTP 429\nwaited\nwent on\nbroke at line 7\n", "", 1, class.None, false},
		{"a number that is no status", "", "a.go:429: undefined: x\n", 1, class.None, false},
		{"its own fault", "", "panic: index out of range\n", 2, class.None, false},
	} {
		s := &plainStream{}
		l := s.Finish(proc.Result{Ended: proc.Exited, Code: c.code, Stdout: proc.Capture{Head: []byte(c.out)}, Stderr: proc.Capture{Head: []byte(c.err)}})
		if l.Class != c.want || (l.Limit != nil) != c.limited || l.Done || (l.Class != class.None) != l.Structured {
			t.Errorf("%s: %+v, want %q", c.name, l, c.want)
		}
	}
}
