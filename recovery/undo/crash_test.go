package undo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
)

// childEnv makes the test binary a process that is to be killed: its value is
// "what\nrepo\nstore\nid\nstep".
const childEnv = "UNDO_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		if err := victim(strings.Split(part, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	dir, err := os.MkdirTemp("", "undo-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(writePrograms(dir), os.Setenv(binEnv, dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// victim does what it is told and dies of SIGKILL before the physical step of that
// number; with a number below 0 it prints the steps instead.
func victim(args []string) error {
	at, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	n := 0
	dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	proc.TrustInTests(dir)
	s := Store{Repo: args[1], Dir: args[2], Disk: durable.OS().WithFault(func(op string) error {
		if at < 0 {
			fmt.Println(op)
		}
		if n == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		n++
		return nil
	})}
	ctx := context.Background()
	switch args[0] {
	case "keep":
		_, err = s.Keep(ctx, Request{Targets: crashTargets(), Caps: DefaultCaps(), Time: time.Unix(1_700_000_000, 0)})
	case "keep-clean":
		_, err = s.Keep(ctx, Request{Targets: cleanTargets(), Caps: DefaultCaps(), Time: time.Unix(1_700_000_000, 0)})
	case "seal":
		err = s.Seal(ctx, args[3])
	case "restore":
		_, err = s.Restore(ctx, args[3], Options{Force: true})
	case "drop":
		err = s.Drop(ctx, args[3])
	}
	return err
}

func crashTargets() Targets {
	return Targets{Paths: []Target{{Path: "node_modules", Deleted: true}}, Untracked: true}
}

func cleanTargets() Targets {
	return Targets{Paths: []Target{{Path: "node_modules"}, {Path: "package.json"}}}
}

// small is a repository with one of everything.
func small(t *testing.T) box {
	b := newBox(t)
	b.put(".gitignore", "node_modules\n")
	b.put("tracked", "1")
	b.link("tracked", "link")
	b.commit()
	b.put("tracked", "2")
	b.put("untracked", "3")
	b.link("nowhere", "ulink")
	b.put("node_modules/a/b", "4")
	b.link("a/b", "node_modules/c")
	return b
}

const damage = "rm -rf node_modules link ulink; mkdir node_modules; echo new > node_modules/x; echo 5 > tracked; echo 6 > untracked"

// kill is a place at which a process is killed: before a step of the disk, or
// around the n-th program that it runs.
type kill struct {
	step int    // -1: no step
	tool int    // 0: none
	when string // before, half (of what a cp copies), after
}

func (k kill) String() string {
	if k.tool > 0 {
		return fmt.Sprintf("%s-program-%d", k.when, k.tool)
	}
	return fmt.Sprintf("step-%d", k.step)
}

// binEnv names the directory of the programs that stand in front of those that are
// called: each counts, and kills its caller at the one that is asked for. They are
// written before any other process is started, which could hold them open.
const binEnv = "UNDO_TEST_BIN"

func writePrograms(dir string) error {
	for _, name := range []string{"git", "cp", "rm", "ln", "find"} {
		real, err := proc.LookPath(name, os.Environ())
		if err != nil {
			return err
		}
		script := fmt.Sprintf(`#!/bin/sh
# Its own environment holds nothing; its caller's says what to do.
eval "$(tr '\0' '\n' < /proc/$PPID/environ | sed -n "s/^\(UNDO_\(COUNT\|N\|WHEN\)\)=\(.*\)/\1='\3'/p")"
what=%[1]s
case "%[1]s $*" in
git*fast-import* | git*update-ref* | cp* | rm* | ln* | find*) ;;
*)
	# It only reads.
	for word; do
		case $word in
		rev-parse | config | diff-index | ls-files | check-attr | cat-file) what=$word; break ;;
		esac
	done
	echo "$what" >> "$UNDO_COUNT.reads"
	exec %[2]s "$@" ;;
esac
echo %[1]s >> "$UNDO_COUNT"
n=0
while read -r _; do n=$((n+1)); done < "$UNDO_COUNT"
[ "$n" = "$UNDO_N" ] && [ "$UNDO_WHEN" = before ] && { kill -9 $PPID; exit 1; }
%[2]s "$@"
rc=$?
if [ "$n" = "$UNDO_N" ]; then
	if [ "$UNDO_WHEN" = half ]; then
		for last; do :; done
		[ -d "$last" ] && rm -rf "$last/a"
	fi
	kill -9 $PPID
fi
exit $rc
`, name, real)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// run runs a child and says whether it was killed, and what it printed.
func (b box) run(k kill, what, id string) (killed bool, out string) {
	b.t.Helper()
	count := filepath.Join(b.t.TempDir(), "count")
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	env := []string{childEnv + "=" + strings.Join([]string{what, b.dir, b.store.Dir, id, strconv.Itoa(k.step)}, "\n"),
		"UNDO_COUNT=" + count, "UNDO_N=" + strconv.Itoa(k.tool), "UNDO_WHEN=" + k.when}
	for _, e := range b.env {
		if strings.HasPrefix(e, "PATH=") {
			e = "PATH=" + os.Getenv(binEnv) + ":" + e[5:]
		}
		env = append(env, e)
	}
	text, err := proc.Tool{Dir: b.dir, Env: env}.Run(b.t.Context(), exe)
	var failed *proc.ToolError
	if errors.As(err, &failed) && strings.Contains(err.Error(), "killed") {
		return true, string(text)
	}
	if err != nil {
		b.t.Fatalf("%s %v: %v", what, k, err)
	}
	programs, _ := os.ReadFile(count) // there is none where none was started
	reads, _ := os.ReadFile(count + ".reads")
	return false, fmt.Sprintf("%sreads %s\nprograms %s", text, strings.Join(strings.Fields(string(reads)), " "), strings.Join(strings.Fields(string(programs)), " "))
}

// kills finds all places of a clean run. Before a program is after the one before
// it, so besides that only a copy that is half done is another place.
func kills(b box, what, id string) []kill {
	b.t.Helper()
	_, out := b.run(kill{step: -1}, what, id)
	steps, programs, ok := strings.Cut(out, "programs ")
	steps, _, _ = strings.Cut(steps, "reads ")
	if !ok || steps == "" {
		b.t.Fatalf("%s: %s", what, out)
	}
	var list []kill
	for n := range strings.Count(steps, "\n") {
		list = append(list, kill{step: n})
	}
	for n, name := range strings.Fields(programs) {
		list = append(list, kill{step: 1 << 30, tool: n + 1, when: "before"})
		if name == "cp" {
			list = append(list, kill{step: 1 << 30, tool: n + 1, when: "half"})
		}
	}
	sample := list[:0]
	for n, k := range list {
		if n%testkit.Sample(4, 1, 1) == 0 || n == len(list)-1 {
			sample = append(sample, k)
		}
	}
	return sample
}

// TestKeepKilledAnywhere: there is no set or a whole one, and the repository is
// as it was.
func TestKeepKilledAnywhere(t *testing.T) {
	t.Parallel()
	clean := func(t *testing.T) box {
		b := newBox(t)
		b.put("package.json", "1")
		b.commit()
		return b
	}
	for what, c := range map[string]struct {
		make    func(*testing.T) box
		targets Targets
		damage  string
	}{"keep": {small, crashTargets(), damage}, "keep-clean": {clean, cleanTargets(), "echo 2 > package.json"}} {
		for _, k := range kills(c.make(t), what, "") {
			t.Run(what+"/"+k.String(), func(t *testing.T) {
				t.Parallel()
				b := c.make(t)
				before, index := b.state(), b.index()
				if killed, _ := b.run(k, what, ""); !killed {
					t.Fatal("it was not killed")
				}
				if b.state() != before || b.index() != index {
					t.Error("the repository was touched")
				}
				sets, err := b.store.List()
				if err != nil || len(sets) > 1 {
					t.Fatalf("%v %v", sets, err)
				}
				if len(sets) == 0 {
					sets = []Kept{b.keep(c.targets)}
				} else if _, err := b.store.Prune(t.Context(), 10, 0, time.Now()); err != nil {
					t.Fatal(err)
				}
				b.nothingLeft()
				b.sh(c.damage)
				b.seal(sets[0])
				if r := b.restore(sets[0], false); !r.Complete() || b.state() != before {
					t.Errorf("the set is not whole: %+v\n%s", r, b.state())
				}
			})
		}
	}
}

// TestRestoreKilledAnywhere: the next call brings everything back.
func TestRestoreKilledAnywhere(t *testing.T) {
	t.Parallel()
	prepared := func(t *testing.T) (box, Kept, string) {
		b := small(t)
		before := b.state()
		k := b.keep(crashTargets())
		b.sh(damage)
		b.seal(k)
		b.put("untracked", "a conflict")
		return b, k, before
	}
	first, kept, _ := prepared(t)
	for _, k := range kills(first, "restore", kept.ID) {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			b, kept, before := prepared(t)
			if killed, _ := b.run(k, "restore", kept.ID); !killed {
				t.Fatal("it was not killed")
			}
			if r := b.restore(kept, true); !r.Complete() {
				t.Errorf("%+v", r)
			}
			data, err := os.ReadFile(b.path("untracked" + conflictMark))
			if err != nil || string(data) != "a conflict" {
				t.Errorf("the conflict is lost: %q %v", data, err)
			}
			b.rm("untracked" + conflictMark)
			removeTemps(t, b)
			if got := b.state(); got != before {
				t.Errorf("got\n%s\nwant\n%s", got, before)
			}
			if _, err := b.store.Prune(t.Context(), 10, 0, time.Now()); err != nil {
				t.Fatal(err)
			}
			b.nothingLeft()
		})
	}
}

// removeTemps removes what a write that was killed leaves; it harms nobody.
func removeTemps(t *testing.T, b box) {
	t.Helper()
	if _, err := durable.OS().RemoveTemps("test", b.dir); err != nil {
		t.Fatal(err)
	}
}

func TestDropKilledAnywhere(t *testing.T) {
	t.Parallel()
	first := small(t)
	for _, k := range kills(first, "drop", first.keep(crashTargets()).ID) {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			b := small(t)
			kept := b.keep(crashTargets())
			if killed, _ := b.run(k, "drop", kept.ID); !killed {
				t.Fatal("it was not killed")
			}
			sets, err := b.store.List()
			if err != nil || len(sets) > 1 {
				t.Fatalf("%v %v", sets, err)
			}
			if len(sets) == 1 {
				if r := b.restore(sets[0], false); !r.Complete() {
					t.Errorf("the set that is listed is not whole: %+v", r)
				}
			}
			if _, err := b.store.Prune(t.Context(), 0, time.Nanosecond, time.Now()); err != nil {
				t.Fatal(err)
			}
			if sets, _ := b.store.List(); len(sets) != 0 {
				t.Errorf("%v", sets)
			}
			b.nothingLeft()
		})
	}
}
