package recovery

import (
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// TestAlreadyDone: the same words in the same directory are the same command; anything else is another one.
func TestAlreadyDone(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		ran, dir, proposed, in string
		same                   bool
	}{
		{"npm ci", ".", "npm ci", ".", true},
		{"npm ci", ".", "npm  ci ", "./", true},
		{"npm ci", ".", `"npm" 'ci' # once more`, ".", true},
		{"rm -rf node_modules && npm ci", "web", "rm -rf node_modules&&npm ci", "./web", true},
		{"npm ci", ".", "npm ci", "web", false},
		{"npm ci", ".", "npm ci --force", ".", false},
		{"npm ci", ".", "npm install", ".", false},
		{"ls *", ".", "ls '*'", ".", false},
		{"echo '~'", ".", "echo ~", ".", false},
		{"echo 'if'", ".", "echo if", ".", true},
		{"'if' x", ".", "if x; then y; fi", ".", false},
		{"echo 'a b'", ".", "echo a b", ".", false},
		{"A=1 make", ".", "make", ".", false},
		{"a; b", ".", "b; a", ".", false},
		{"echo (", ".", "echo  (", ".", false},
		{"echo (", ".", "echo (", ".", true},
	} {
		d := &action.Done{N: 2, Command: tt.ran, WorkingDir: tt.dir, At: at}
		a := action.Draft{Command: tt.proposed, WorkingDir: tt.in}.Action()
		if got := AlreadyDone(d, a); got != tt.same {
			t.Errorf("%q in %q after %q in %q: %v", tt.proposed, tt.in, tt.ran, tt.dir, got)
		}
		if AlreadyDone(nil, a) {
			t.Errorf("%q was done although nothing was", tt.proposed)
		}
	}
	got := DoneReason(action.Done{N: 2, At: at, Why: "the tests pass"})
	for _, want := range []string{"recovery 2", "2026-05-01T12:00:00Z", "the tests pass", "nothing has failed since"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}
