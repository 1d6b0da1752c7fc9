package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/server/forge"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.SpawnerArg:
			os.Exit(proc.SpawnerMain())
		case sandbox.ShimArg:
			os.Exit(sandbox.ShimMain())
		}
	}
	os.Exit(m.Run())
}

// database is what bd does with the commands that superloop gives it, in the forms of its documentation. envelope puts
// lists into an object, as newer versions do.
type database struct {
	t        *testing.T
	issues   []map[string]any
	comments map[string][]string
	envelope bool
	ran      []string
}

func (d *database) add(id, status string, labels ...string) map[string]any {
	is := map[string]any{"id": id, "title": "Build " + id, "description": "text of " + id, "status": status, "labels": labels, "created_at": fmt.Sprintf("2026-03-01T09:00:%02dZ", len(d.issues))}
	d.issues = append([]map[string]any{is}, d.issues...)
	return is
}

func (d *database) find(id string) map[string]any {
	at := slices.IndexFunc(d.issues, func(is map[string]any) bool { return is["id"] == id })
	if at < 0 {
		return nil
	}
	return d.issues[at]
}

func (d *database) run(_ context.Context, args ...string) ([]byte, error) {
	d.ran = append(d.ran, strings.Join(args, " "))
	list := []any{}
	switch args[0] + " " + args[1] {
	case "list --json":
		for _, is := range d.issues {
			if is["status"] != "closed" {
				list = append(list, is)
			}
		}
	case "ready --json":
		for _, is := range d.issues {
			if is["status"] == "open" && is["dependencies"] == nil && is["gate"] == nil {
				list = append(list, is)
			}
		}
	case "comments add":
		d.comments[args[2]] = append(d.comments[args[2]], args[3])
		return nil, nil
	case "label add", "label remove":
		is := d.find(args[2])
		labels := slices.DeleteFunc(slices.Clone(is["labels"].([]string)), func(l string) bool { return l == args[3] })
		if args[1] == "add" {
			labels = append(labels, args[3])
		}
		is["labels"] = labels
		return nil, nil
	default:
		is := d.find(args[1])
		switch {
		case is == nil:
			return nil, &forge.Error{Err: fmt.Errorf("issue not found: %w", ErrNotFound), Next: "bd list"}
		case args[0] == "update" && args[2] == "--status":
			is["status"] = args[3]
			return nil, nil
		case args[0] == "comments":
			for _, c := range d.comments[args[1]] {
				list = append(list, map[string]any{"id": "1", "author": "ann", "text": c})
			}
		case args[0] == "show":
			list = append(list, is)
		}
	}
	var v any = list
	switch {
	case d.envelope && args[0] == "show":
		v = list[0]
	case d.envelope:
		v = map[string]any{"schema_version": 1, "items": list}
	}
	out, err := json.Marshal(v)
	if err != nil {
		d.t.Fatal(err)
	}
	return out, nil
}

func TestBeads(t *testing.T) {
	t.Parallel()
	for _, envelope := range []bool{false, true} {
		d := &database{t: t, comments: map[string][]string{}, envelope: envelope}
		b := Beads{BD: d.run, Label: Mark}
		d.add("bd-1", "open", Mark)["acceptance_criteria"] = "It works."
		d.add("bd-2", "open")
		d.add("bd-a1.3", "open", Mark)["dependencies"] = []map[string]any{{"issue_id": "bd-a1.3", "depends_on_id": "bd-2", "type": "blocks"}, {"depends_on_id": "bd-1", "type": "related"}, {"depends_on_id": "bd-gone", "type": "blocks"}}
		d.add("bd-4", "in_progress", Mark)
		d.add("bd-5", "closed", Mark)
		d.add("bd-6", "open", Mark)["gate"] = true
		d.add("--flag", "open", Mark)
		list := mustList(t, b)
		if got, want := held(list), "bd-1, bd-a1.3 (blocked by bd-2), bd-4 (its status is in_progress), bd-6 (bd ready does not show it)"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if list[0].Body != "text of bd-1\n\n## Acceptance criteria\n\nIt works." || strings.Join(list[1].After, " ") != "bd-2" {
			t.Errorf("%+v", list[:2])
		}
		if got := held([]Item{mustGet(t, b, "bd-1"), mustGet(t, b, "bd-2"), mustGet(t, b, "bd-5")}); got != "bd-1, bd-2 ("+heldMark+Mark+"), bd-5 (it is closed)" {
			t.Error(got)
		}
		for _, id := range []string{"bd-9", "--help", "", "bd"} {
			if _, err := b.Get(t.Context(), id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
			if err := b.Tell(t.Context(), id, Report{State: Taken}); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
		tell := func(r Report, want string) {
			t.Helper()
			for range 2 {
				if err := b.Tell(t.Context(), "bd-1", r); err != nil {
					t.Fatal(err)
				}
				is := d.find("bd-1")
				if got := fmt.Sprint(is["status"], " ", is["labels"], " ", len(d.comments["bd-1"])); got != want {
					t.Errorf("%+v: %s, want %s", r, got, want)
				}
			}
		}
		tell(Report{State: Taken, Text: "--begun"}, "in_progress [superloop superloop-taken] 1")
		if it := mustGet(t, b, "bd-1"); it.Held != "" { // it is superloop's own
			t.Errorf("%+v", it)
		}
		tell(Report{State: Delivered, URL: "https://example.com/7"}, "in_progress [superloop superloop-delivered] 2")
		tell(Report{State: Failed}, "open [superloop superloop-failed] 2")
		tell(Report{State: Released}, "open [superloop] 2")
		for _, ran := range d.ran {
			if strings.Contains(ran, " --begun") && !strings.Contains(ran, "superloop: --begun") {
				t.Error(ran)
			}
		}
	}
}

// An agent may have put anything into the repository's database and configuration, so bd gets what an agent gets.
func TestBeadsIsConfined(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) string { return filepath.Join(append([]string{top}, names...)...) }
	for _, dir := range []string{"repo/.beads", "bin", "state", "tmp", "outside"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := `#!/bin/sh
echo "$*" > "$PWD/.beads/ran"
case $1 in
fail) echo "no database found" >&2; exit 1 ;;
many) yes | head -c 20000000; exit ;;
esac
cat "` + at("state", "key") + `" 2>/dev/null
echo x > "` + at("outside", "written") + `" 2>/dev/null
printf '[{"id":"bd-1","title":"%s%s"}]' "$LINEAR_API_KEY" "$GH_TOKEN"
`
	for name, text := range map[string]string{"bin/bd": script, "state/key": "the key"} {
		if err := os.WriteFile(at(name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := proc.Start(proc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	bd := Confined(Confinement{Spawner: s, Repo: at("repo"), Tmp: at("tmp"), Hidden: []string{at("state")},
		Env: append(os.Environ(), "PATH="+at("bin")+":"+os.Getenv("PATH"), "LINEAR_API_KEY=lin_api_secret", "GH_TOKEN=ghp_secret")})
	out, err := bd(t.Context(), "list", "it's $HOME; touch x")
	var weak *sandbox.RefusedError
	if errors.As(err, &weak) {
		t.Skipf("this system confines nothing so far that the private state is hidden: %v", err)
	}
	if err != nil || string(out) != `[{"id":"bd-1","title":""}]` {
		t.Fatalf("%q %v", out, err)
	}
	ran, err := os.ReadFile(at("repo", ".beads", "ran"))
	if err != nil || string(ran) != "list it's $HOME; touch x\n" {
		t.Errorf("%q %v", ran, err)
	}
	if _, err := os.Stat(at("outside", "written")); err == nil {
		t.Error("bd wrote outside of the repository")
	}
	if left, err := os.ReadDir(at("tmp")); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	_, err = bd(t.Context(), "fail")
	refused(t, err, "no database found", "cd ")
	_, err = bd(t.Context(), "many")
	refused(t, err, "more than 16 MiB", "cd ")
	ctx, cancel := gone(t)
	cancel()
	if _, err := bd(ctx, "list"); !errors.Is(err, errGone) {
		t.Error(err)
	}
	missing := Confined(Confinement{Spawner: s, Repo: at("repo"), Tmp: at("tmp"), Hidden: []string{at("state")}, Env: []string{"PATH=/nowhere"}})
	_, err = missing(t.Context(), "list")
	refused(t, err, "bd", "install bd ")
}

func FuzzBeads(f *testing.F) {
	for _, s := range []string{`[{"id":"bd-1","title":"t","labels":["superloop"],"dependencies":[{"depends_on_id":"bd-2","type":"blocks"}]}]`, `{"schema_version":1,"items":[{"id":"bd-1"}]}`, `{"id":"bd-1"}`, `[{"text":"x"}]`, `{"items":[{"text":"x"}]}`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := Beads{BD: func(context.Context, ...string) ([]byte, error) { return data, nil }, Label: Mark}
		list, err := b.List(t.Context())
		check(t, list, err)
		if err := b.Tell(t.Context(), "bd-1", Report{State: Taken, Text: "x"}); err != nil && len(err.Error()) > 1000 {
			t.Fatal(err)
		}
	})
}
