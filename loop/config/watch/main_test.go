package watch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
)

// childEnv makes the test binary a process that writes the configuration.
const childEnv = "WATCH_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		f := strings.Split(part, "\n")
		n, err := strconv.Atoi(f[1])
		if err == nil {
			err = writeALot(f[0], n)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait: far more than anything takes.
const patience = 2 * time.Minute

// secretText stands in every value that must never be shown.
const secretText = "hunter2"

type obj = map[string]any

// base is a configuration whose files are there.
func base() obj {
	return obj{
		"runners":  obj{"a": obj{"command": "agent", "env": obj{"K": secretText}}},
		"recovery": obj{"auto_approve": []any{"npm ci"}, "max_auto_recoveries_per_run": 3},
		"webhooks": obj{"on_escalation": "https://h/" + secretText},
		"loops":    []any{obj{"id": "one", "spec_file": "spec.md", "max_iterations": 3, "completion_promise": "DONE"}},
	}
}

// set changes the value at a path such as "loops/0/id"; nil removes it.
func set(in obj, path string, value any) obj {
	var at any = in
	parts := strings.Split(path, "/")
	for i, p := range parts {
		last := i == len(parts)-1
		if list, ok := at.([]any); ok {
			at = list[int(p[0]-'0')]
			continue
		}
		m := at.(obj)
		switch {
		case last && value == nil:
			delete(m, p)
		case last:
			m[p] = value
		}
		at = m[p]
	}
	return in
}

func text(v any) []byte {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return append(data, '\n')
}

// world is a repository with a loop on it.
type world struct {
	t     testing.TB
	repo  string
	path  string
	store trust.Store
	now   time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, repo: t.TempDir(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.path = filepath.Join(w.repo, ".superloop", "config.json")
	w.store = trust.Store{Disk: durable.OS(), Path: filepath.Join(t.TempDir(), "trust", "id.json")}
	for _, name := range []string{"spec.md", "other.md"} {
		w.ok(os.WriteFile(filepath.Join(w.repo, name), []byte("build it\n"), 0o644))
	}
	w.ok(os.Mkdir(filepath.Dir(w.path), 0o755))
	w.write(base())
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// write replaces the configuration as a careful editor does.
func (w *world) write(v any) {
	w.t.Helper()
	data, raw := v.([]byte)
	if !raw {
		data = text(v)
	}
	w.ok(os.WriteFile(w.path+".new", data, 0o644))
	w.ok(os.Rename(w.path+".new", w.path))
}

func (w *world) options() Options {
	return Options{Repo: w.repo, Running: []string{"one"}, Store: w.store, By: "ann", Now: func() time.Time { return w.now },
		LookPath: func(file string) (string, error) {
			if file == "agent" {
				return "/bin/agent", nil
			}
			return "", os.ErrNotExist
		}}
}

func (w *world) start(o Options) (*Reloader, Outcome) {
	w.t.Helper()
	cfg, err := config.Load(w.path)
	w.ok(err)
	r, out, err := New(cfg, o)
	w.ok(err)
	return r, out
}

// check looks, a second after the last time.
func (w *world) check(r *Reloader) Outcome {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	out := r.Check(w.now)
	if out.Config == nil || out.Config != r.Config() {
		w.t.Fatalf("what is in force is %p, and not %p", out.Config, r.Config())
	}
	shown, err := json.Marshal([]any{out.Changes, out.Diff, out.Problems, out.Warnings})
	if err != nil || strings.Contains(string(shown), secretText) {
		w.t.Fatalf("a secret is shown: %s, %v", shown, err)
	}
	return out
}

// is wants an outcome of a kind.
func (w *world) is(out Outcome, kind Kind) Outcome {
	w.t.Helper()
	if out.Kind != kind {
		w.t.Fatalf("it is %s, want %s: %+v", out.Kind, kind, out)
	}
	return out
}

// paths writes changes shortly.
func paths(list []config.Change) string {
	var out []string
	for _, c := range list {
		out = append(out, fmt.Sprintf("%s %v>%v", c.Path, c.From, c.To))
	}
	return strings.Join(out, " | ")
}

func codes(list []config.Problem) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Code+" "+p.Pointer)
	}
	return strings.Join(out, " | ")
}
