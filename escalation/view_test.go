package escalation

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/schemas"
)

func viewed(t testing.TB, r Record) map[string]any {
	t.Helper()
	data, err := View(r)
	check(t, err)
	for _, p := range schemas.Validate(schemas.Escalation, data) {
		t.Errorf("%s: %s", r.State, p)
	}
	if i := bytes.IndexFunc(data, func(c rune) bool { return c != '\n' && (c < ' ' || c > '~') }); i >= 0 {
		t.Errorf("byte %d of the view is not inert", i)
	}
	var v map[string]any
	check(t, json.Unmarshal(data, &v))
	return v
}

// Conforms: 004-3.1-timestamp, 004-p2.1
func TestViewGolden(t *testing.T) {
	t.Parallel()
	got, err := View(record(t, sample(idA)))
	check(t, err)
	path := filepath.Join("testdata", "escalation.json")
	if *update {
		check(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("it is not %s:\n%s", path, got)
	}
	// The proposal in it is a recovery.json of the published form.
	var v struct {
		Proposal json.RawMessage `json:"recovery_proposal"`
	}
	check(t, json.Unmarshal(got, &v))
	p, problems := recovery.DecodeProposal(v.Proposal, 0)
	if len(problems) > 0 || p.Recovery.Command != "rm -rf node_modules && bun install" || p.Recovery.Timeout().Seconds() != 300 ||
		!p.Timestamp.Equal(created.Add(-3*time.Minute)) || p.Fallback == nil || p.Fallback.Command != "bun install --force" || p.Fallback.Confidence != "medium" {
		t.Errorf("%+v, %v", p, problems)
	}
}

// The view is valid in every state, whatever the question holds.
// Conforms: 004-p2.1
func TestViewIsValid(t *testing.T) {
	t.Parallel()
	code := 1
	big := asking(idA, strings.Repeat("\x01", 64<<10))
	plain := sample(idA)
	plain.Command, plain.Type, plain.Options = nil, RoleFailure, nil
	for i, q := range []Question{plain, sample(idA), hostile(), big} {
		r := record(t, q)
		viewed(t, r)
		if i > 1 { // they are large, and what is in them is the same in every state
			continue
		}
		s, err := r.superseded(idB, "newer", created)
		check(t, err)
		viewed(t, s)
		viewed(t, r.expired(created))
		for _, m := range []Method{Approve, Reject, Resolve} {
			a, err := r.answered(AnswerRequest{Method: m, By: alice, Note: "\x1b[2Jno\u202e"}, created)
			check(t, err)
			if v := viewed(t, a); v["by"] != "cli:alice (uid 1000)" || v["note"] != "\x1b[2Jno\u202e" || v["method"] != string(m) {
				t.Errorf("%v", v)
			}
			if m != Approve {
				continue
			}
			store, _ := newStore(t)
			mustOpen(t, store, q)
			ctx := context.Background()
			_, err = store.Answer(ctx, AnswerRequest{Method: m, By: alice})
			check(t, err)
			b, err := store.Begin(ctx, idA)
			check(t, err)
			viewed(t, b)
			raw, err := os.ReadFile(filepath.Join(store.Dir, File))
			check(t, err)
			f, err := store.Finish(ctx, idA, Outcome{ExitCode: &code, Note: "it failed"})
			check(t, err)
			if v := viewed(t, f); v["exit_code"] != 1.0 || v["why"] != "it failed" || v["status"] != "failed" {
				t.Errorf("%v", v)
			}
			check(t, os.WriteFile(filepath.Join(store.Dir, File), raw, 0o600)) // as it was when it began
			n, err := store.Interrupt(ctx, idA)
			check(t, err)
			viewed(t, n)
		}
	}
	exact := "echo '\u202e\U0001F600\x7f' <!channel> & x"
	v := viewed(t, record(t, asking(idA, exact)))
	if got := v["recovery_proposal"].(map[string]any)["recovery"].(map[string]any)["command"]; got != exact {
		t.Errorf("%q", got)
	}
}

// What text.Paste gives is the text again, for a real shell, and inert until then.
func TestQuote(t *testing.T) {
	t.Parallel()
	var texts []string
	rapid.Check(t, func(rt *rapid.T) {
		word := strings.TrimRight(strings.ReplaceAll(drawText(rt, "text"), "\x00", ""), "\n")
		if q := text.Paste(word); !printable(q) {
			rt.Fatalf("%q is not inert", q)
		}
		texts = append(texts, word)
	})
	texts = append(texts, "", "'", `\`, "-n", "%s%%", "a\nb", "\x7f", "!!", "~", "#x", "$HOME", "`id`", "\\n", "\\0101", "a\\\n")
	for _, shell := range []string{"sh", "bash"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("there is no %s here", shell)
			continue
		}
		var script, want bytes.Buffer
		for _, word := range texts {
			word = strings.TrimRight(word, "\n")
			script.WriteString("printf '%s\\0' " + text.Paste(word) + "\n")
			want.WriteString(word + "\x00")
		}
		cmd := exec.Command(shell)
		cmd.Stdin = &script
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/nowhere"}
		got, err := cmd.Output()
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			a, b := bytes.Split(got, []byte{0}), bytes.Split(want.Bytes(), []byte{0})
			for i := range min(len(a), len(b)) {
				if !bytes.Equal(a[i], b[i]) {
					t.Errorf("%s makes %q of %s", shell, a[i], text.Paste(string(b[i])))
				}
			}
			t.Errorf("%s: %v, %d of %d", shell, err, len(a), len(b))
		}
	}
}

// The manual action does what superloop would do, in the right directory, by a
// real shell, and leaves that shell where it is if the command is an odd one.
// Conforms: 004-3.1-manual
func TestManualAction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ dir, command, want string }{
		"plain":          {"repo", "touch a && touch b", "a b"},
		"blank in path":  {"my repo's", "touch a", "a"},
		"hostile path":   {"x\x1b[2J\u202e$(touch evil)`id`'\n", "touch a", "a"},
		"list":           {"repo", "touch a; touch b", "a b"},
		"or":             {"repo", "false || touch a", "a"},
		"exit":           {"repo", "touch a && exit 0", "a"},
		"comment":        {"repo", "touch a # x", "a"},
		"newline":        {"repo", "touch a\ntouch b\n", "a b"},
		"quotes":         {"repo", `touch "a  b" 'c'`, "a  b c"},
		"expansion":      {"repo", "for i in 1 2; do touch x$i; done", "x1 x2"},
		"hidden":         {"repo", "touch a\u200b", "a\u200b"},
		"pipefail":       {"repo", "false | true || touch a", "a"},
		"background":     {"repo", "touch a & wait", "a"},
		"bash's own":     {"repo", "[[ abc == a* ]] && touch {p,q}", "p q"},
		"percent":        {"repo", "touch \u00e9%s", "\u00e9%s"},
		"like an option": {"repo", "-x; touch a", "a"},
		"unusual quotes": {"repo", "touch \"it's\"", "it's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			repo := filepath.Join(top, c.dir)
			check(t, os.MkdirAll(filepath.Join(repo, "sub"), 0o755))
			q := asking(idA, c.command)
			q.Repo, q.Command.WorkingDir = repo, "sub"
			a := record(t, q).Actions()
			for _, line := range []string{a.Manual, a.Approve, a.Reject, a.Resolve} {
				if !printable(line) {
					t.Errorf("a line is not inert: %q", line)
				}
			}
			out, err := exec.Command("sh", "-c", a.Manual+"\necho survived").CombinedOutput()
			if c.command[0] == '-' { // its first part fails, and says so
				out = out[bytes.Index(out, []byte("survived")):]
			}
			if err != nil || string(out) != "survived\n" {
				t.Errorf("%s: %s, %v", a.Manual, out, err)
			}
			var names []string
			entries, err := os.ReadDir(filepath.Join(repo, "sub"))
			check(t, err)
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%s made %q", a.Manual, got)
			}
			if entries, _ := os.ReadDir(top); len(entries) != 1 {
				t.Errorf("%s made something outside: %v", a.Manual, entries)
			}
		})
	}
}

// The published example reads as it was published, and answers are bound.
// Conforms: 004-3.1-approve, 004-3.1-reject
func TestActions(t *testing.T) {
	t.Parallel()
	r := record(t, sample(idA))
	a := r.Actions()
	if want := "cd /repo/pinpoint && rm -rf node_modules && bun install"; a.Manual != want {
		t.Errorf("%s", a.Manual)
	}
	if want := "superloop approve-recovery --repo /repo/pinpoint --loop pinpoint-v1 --digest " + r.Digest[:16]; a.Approve != want {
		t.Errorf("%s", a.Approve)
	}
	q := sample(idA)
	q.Loop, q.Repo, q.Command, q.Type, q.Manual = "-x", "/a b/$(id)", nil, RunnerUnavailable, "claude /login"
	a = record(t, q).Actions()
	if want := "superloop reject-recovery --repo '/a b/$(id)' --loop=-x --digest "; !strings.HasPrefix(a.Reject, want) || a.Manual != "claude /login" {
		t.Errorf("%+v", a)
	}
}

// printable reports whether a text is one line of printable ASCII.
func printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
