//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/superloop/superloop/internal/proc"
)

// meanwhile runs a script that says "ready" and then waits for a line on its
// loop's FIFO; between the two the supervisor does something.
func meanwhile(t *testing.T, s *shielded, with Spawner, script string, do func()) string {
	t.Helper()
	fifo := s.loop + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	var said bytes.Buffer
	a := s.agent("exec 8<>\"$LOOP/fifo\"; echo ready; read go <&8; { " + script + "; } 2>&1")
	a.said = func(p []byte) {
		if said.Len() == 0 {
			close(ready)
		}
		said.Write(p)
	}
	done := make(chan string, 1)
	go func() {
		res, err := with.Run(context.Background(), a.spec())
		done <- fmt.Sprint(strings.TrimPrefix(res.Stdout.Text(), "ready\n"), err, res.Err, res.Code)
	}()
	select {
	case <-ready:
	case text := <-done:
		t.Fatalf("it ended at once: %s", text)
	}
	do()
	// Without waiting for a reader: it is there, or the agent has ended.
	f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		_, err = f.WriteString("go\n")
		f.Close()
	}
	if err != nil {
		t.Fatalf("%v: %s", err, <-done)
	}
	return <-done
}

// The supervisor goes on to write by temporary file and rename, to append, to
// make and to remove, while an agent runs; and the agent sees that.
func TestSupervisorWritesWhileAnAgentRuns(t *testing.T) {
	t.Parallel()
	s, g := guardedHere(t)
	replace := func(path, text string) {
		t.Helper()
		s.write(t, path+".tmp", text)
		if err := os.Rename(path+".tmp", path); err != nil {
			t.Fatal(err)
		}
	}
	got := meanwhile(t, s, g, `cat .superloop/config.json "$LOOP"/state.json "$LOOP"/escalation.json "$LOOP"/events.jsonl "$LOOP"/proposals/*; [ -e .superloop/specs ] || echo gone
for f in .superloop/config.json .superloop/new "$LOOP"/events.jsonl "$LOOP"/proposals/1.json "$LOOP"/proposals/2.json "$PRIVATE"/repo/pin.json; do (echo x > "$f") 2>/dev/null && echo "wrote $f"; done; true`, func() {
		replace(s.repo+"/.superloop/config.json", "new config\n")
		replace(s.loop+"/state.json", "new state\n")
		replace(s.loop+"/escalation.json", "new question\n")
		replace(s.loop+"/proposals/1.json", "new proposal\n")
		replace(s.private+"/repo/pin.json", "new pin\n")
		f, err := os.OpenFile(s.loop+"/events.jsonl", os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("event 2\n"); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(s.repo + "/.superloop/specs"); err != nil {
			t.Fatal(err)
		}
	})
	want := "new config\nnew state\nnew question\nevent\nevent 2\nnew proposal\ngone\n<nil> <nil> 0"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if text, err := os.ReadFile(s.private + "/repo/pin.json"); err != nil || string(text) != "new pin\n" {
		t.Error(string(text), err)
	}
}

// A whole tree that is protected can be removed and moved from outside.
func TestProtectionDoesNotHoldTheSupervisorUp(t *testing.T) {
	t.Parallel()
	s, g := guardedHere(t)
	if got := meanwhile(t, s, g, "echo x > $LOOP/late; echo x > .superloop/config.json; echo on", func() {
		if err := os.Rename(s.repo+"/.superloop", s.outside+"/moved"); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(s.private); err != nil {
			t.Error(err)
		}
		if err := os.Symlink(s.outside+"/moved", s.repo+"/.superloop"); err != nil {
			t.Error(err)
		}
		if err := os.Remove(s.repo + "/.superloop"); err != nil {
			t.Error(err)
		}
		if err := os.Rename(s.outside+"/moved", s.repo+"/.superloop"); err != nil {
			t.Error(err)
		}
	}); !strings.Contains(got, "on\n") || !strings.Contains(got, "config.json: Read-only") {
		t.Error(got)
	}
}

// What held when Protect was called is looked at again by each run.
func TestProtectionIsNotGivenUpSilently(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, s *shielded) error{
		"gone":      func(_ *testing.T, s *shielded) error { return os.RemoveAll(s.repo + "/.superloop") },
		"hole gone": func(_ *testing.T, s *shielded) error { return os.RemoveAll(s.loop) },
		"another by now": func(_ *testing.T, s *shielded) error {
			if err := os.Rename(s.repo+"/.superloop", s.repo+"/real"); err != nil {
				return err
			}
			return os.Symlink("real", s.repo+"/.superloop")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := guardedHere(t)
			if err := spoil(t, s); err != nil {
				t.Fatal(err)
			}
			res, err := g.Run(context.Background(), s.agent("echo ran").spec())
			if err != nil || res.Ended != proc.NotStarted || res.Err == nil || !strings.Contains(res.Err.Error(), ".superloop") || len(res.Stdout.Text()) > 0 {
				t.Error(res, err)
			}
		})
	}
}

func TestProtectRefuses(t *testing.T) {
	t.Parallel()
	s := shieldedWorld(t, os.Getuid(), "")
	if err := os.Symlink(s.repo, s.outside+"/link"); err != nil {
		t.Fatal(err)
	}
	dot := s.repo + "/.superloop"
	for want, p := range map[string]Protection{
		"nothing was named": {},
		"no absolute path":  {ReadOnly: []string{".superloop"}},
		"below /":           {ReadOnly: []string{"/"}},
		"the symbolic link": {ReadOnly: []string{s.outside + "/link/.superloop"}},
		"has to exist":      {ReadOnly: []string{s.repo + "/missing"}},
		"not lie in":        {ReadOnly: []string{dot}, Writable: []string{s.outside}},
		"both writable":     {ReadOnly: []string{dot, s.loop}, Writable: []string{s.loop}},
		"which is hidden":   {ReadOnly: []string{dot}, Hidden: []string{s.repo}},
		"only files":        {ReadOnly: []string{dot + "/config.json"}},
	} {
		g, rep := Protect(context.Background(), s.spawner, p)
		if g != Spawner(s.spawner) || rep.Level != ProtectNone || len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], want) {
			if want == "only files" && s.refused(outcome{Report: rep}) {
				continue
			}
			t.Errorf("%s: %+v", want, rep)
		}
	}
}

// Where namespaces are refused nothing is protected, it is said, and agents run.
func TestProtectWithoutNamespaces(t *testing.T) {
	t.Parallel()
	s := shieldedWorld(t, os.Getuid(), "")
	g, rep := Protect(context.Background(), refusing{s.spawner}, s.protection())
	if rep.Level != ProtectNone || len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], "in namespaces of its own: operation not permitted") {
		t.Errorf("%+v", rep)
	}
	res, err := g.Run(context.Background(), s.agent("echo ran").spec())
	if err != nil || res.Stdout.Text() != "ran\n" {
		t.Error(res, err)
	}
}

// refusing is a Spawner on a system that refuses namespaces.
type refusing struct{ Spawner }

func (r refusing) Inside(l proc.Launcher) (*proc.Spawner, error) {
	launch, err := l(proc.Become{Level: r.Level()})
	if err != nil || !launch.Namespaces.Mount {
		return nil, fmt.Errorf("%+v: %w", launch, err)
	}
	return nil, launch.Done(&fs.PathError{Op: "fork/exec", Path: launch.Argv[0], Err: syscall.EPERM})
}

// The same files are protected wherever else they are mounted.
func TestProtectedByEveryPath(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount something twice")
	}
	for _, uid := range []int{0, nobody} {
		s := shieldedWorld(t, uid, "")
		s = s.apart()
		for _, dir := range []string{"/all", "/dot", "/specs", "/loop", "/home"} {
			s.write(t, s.outside+dir+"/.keep", "")
		}
		before := s.look(t)
		a := s.agent(`for f in all/.superloop/config.json all/.superloop/new dot/config.json dot/loops/new specs/new all/.superloop/loops/demo/proposals/new loop/events.jsonl; do
(echo x > ` + s.outside + `/"$f") 2>/dev/null && echo "wrote $f"; done; cat ` + s.outside + `/home/.local/state/superloop/repo/pin.json 2>/dev/null
mv ` + s.outside + `/all/.superloop ` + s.outside + `/all/away 2>/dev/null && echo moved
(echo x > ` + s.outside + `/loop/plan.md) || echo "the loop is not writable"; echo end`)
		a.Binds = [][2]string{{s.repo, s.outside + "/all"}, {s.repo + "/.superloop", s.outside + "/dot"}, {s.repo + "/.superloop/specs", s.outside + "/specs"},
			{s.loop, s.outside + "/loop"}, {s.home, s.outside + "/home"}}
		if o := s.runAgent(t, a); o.Result.Stdout.Text() != "end\n" {
			t.Errorf("%d: %v", uid, o)
		}
		if after := s.look(t); before != after {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		a.Plain = true
		if o := s.runAgent(t, a); strings.Count(o.Result.Stdout.Text(), "wrote") != 7 || !strings.Contains(o.Result.Stdout.Text(), "private-pin") {
			t.Errorf("the control: %v", o)
		}
	}
}

// Of places that lie in each other the deepest decides, in trees as they come.
func TestTheDeepestPlaceDecides(t *testing.T) {
	t.Parallel()
	s, _ := guardedHere(t)
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		top := fmt.Sprintf("%s/tree%d", s.repo, seed)
		dirs := []string{top}
		for range 12 {
			dirs = append(dirs, filepath.Join(dirs[random.IntN(len(dirs))], string(rune('a'+random.IntN(4)))))
		}
		slices.Sort(dirs)
		dirs = slices.Compact(dirs)
		kinds := map[string]string{top: "r"}
		p := Protection{ReadOnly: []string{top}}
		for _, dir := range dirs {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if dir == top {
				continue
			}
			up := filepath.Dir(dir)
			for kinds[up] == "" && up != top {
				up = filepath.Dir(up)
			}
			switch k := random.IntN(4); {
			case kinds[up] == "h":
				kinds[dir] = "h"
			case k == 1:
				kinds[dir], p.ReadOnly = "r", append(p.ReadOnly, dir)
			case k == 2:
				kinds[dir], p.Writable = "w", append(p.Writable, dir)
			case k == 3:
				kinds[dir], p.Hidden = "h", append(p.Hidden, dir)
			default:
				kinds[dir] = kinds[up]
			}
		}
		for _, list := range [][]string{p.ReadOnly, p.Writable, p.Hidden} {
			random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		var want strings.Builder
		for _, dir := range dirs {
			if kinds[dir] == "w" {
				fmt.Fprintln(&want, dir)
			}
		}
		g, rep := Protect(context.Background(), s.spawner, p)
		if rep.Level != ProtectMount {
			t.Fatalf("seed %d: %+v of %+v", seed, rep, p)
		}
		a := s.agent(`for d in '` + strings.Join(dirs, "' '") + `'; do (: > "$d"/file) 2>/dev/null && echo "$d"; done; true`)
		res, err := g.Run(context.Background(), a.spec())
		if err != nil || res.Err != nil || res.Stdout.Text() != want.String() {
			t.Errorf("seed %d, %+v: wrote in\n%s, not in\n%s (%v %v)", seed, p, res.Stdout.Text(), want.String(), err, res.Err)
		}
	}
}
