package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/backlog"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/slots"
)

// The daemon makes loops of a backlog in the order of the names, one for each free place. What is taken away while it
// waits is not begun, and the next daemon begins nothing again.
func TestTheBacklogIsWorkedOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{Loops: 1})
	repo := f.repo("a", "own")
	planned := map[string]int{}
	f.o.Plan = func(_ context.Context, w backlog.Watch, it backlog.Item) (func() error, error) {
		id, spec := it.Loop, it.Spec()
		if id == "own" {
			return nil, fmt.Errorf("%w: own", backlog.ErrTaken)
		}
		planned[id]++
		return func() error {
			p := f.paths("a", id)
			f.write("a/.superloop/loops/"+id+"/prompt.md", string(spec))
			f.write("a/.superloop/loops/"+id+"/config.json", fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "recovery": {"enabled": false}, "loops": [{"id": %q,
				"spec_file": %q, "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 3, "roles": ["reviewer"]}]}`,
				filepath.Join(f.top, "agent.sh"), id, p.Rel(p.OwnPrompt())))
			return nil
		}, nil
	}
	prepare := f.o.Prepare
	f.o.Prepare = func(e registry.Entry) (local.Options, func(), error) {
		o, release, err := prepare(e)
		if cfg, cerr := config.Load(f.paths("a", e.Loop).OwnConfig()); err == nil && cerr == nil {
			o.Config = cfg
		}
		return o, release, err
	}
	put := func(name, text string) {
		f.write("a/.superloop/backlog/"+name, text)
		then := time.Now().Add(-time.Minute)
		if err := os.Chtimes(filepath.Join(repo, ".superloop", "backlog", name), then, then); err != nil {
			t.Fatal(err)
		}
	}
	store := backlog.Store{Loops: f.store()}
	if err := store.Put(backlog.Watch{Repo: repo, By: "eve", Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	f.hold("1-first")
	put("1-first.md", "x\n")
	put("2-gone.md", "x\n")
	put("3-last.md", "x\n")
	put("own.md", "x\n")
	f.serve()
	f.until("the first begins", func() bool { return strings.Contains(read(t, f.top, "began"), "1-first") })
	f.stop() // it is under way, and the others wait
	f.serve()
	f.until("the first begins again", func() bool { return strings.Count(read(t, f.top, "began"), "1-first") == 2 })
	if err := os.Remove(filepath.Join(repo, ".superloop", "backlog", "2-gone.md")); err != nil {
		t.Fatal(err)
	}
	f.free("1-first")
	f.until("the last is done", func() bool {
		return strings.Contains(read(t, f.top, "done"), "3-last") && f.wanted("a", "3-last") == registry.Ended
	})
	put("3-last.md", "changed\n")
	f.stop()
	f.serve()
	put("4-more.md", "x\n")
	f.until("one more is done", func() bool { return strings.Contains(read(t, f.top, "done"), "4-more") })
	f.stop()
	if got := read(t, f.top, "done"); got != "1-first\n3-last\n4-more\n" {
		t.Errorf("done: %q", got)
	}
	if planned["1-first"] != 1 || planned["3-last"] != 1 || planned["2-gone"] != 0 {
		t.Errorf("planned %v", planned)
	}
	if e, err := f.store().Get(repo, "3-last"); err != nil || e.By != "eve" || len(e.Labels) != 1 {
		t.Errorf("%+v %v", e, err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}
