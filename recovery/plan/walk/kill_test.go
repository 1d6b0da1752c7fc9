package walk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

// A chain of real commands. Each writes its name into the file log when it begins,
// so that what ran how often can be counted.
const (
	begun = `echo %s >> log
die() { if [ "$DIE" = "$1 $(grep -c . log)" ]; then kill -9 $PPID; exit 9; fi; }
die before
`
	goalText = "test -e a || { echo no a >&2; exit 1; }; test -e c || { echo no c >&2; exit 1; }\ndie after"
)

func script(name, rest string) string { return fmt.Sprintf(begun, name) + rest }

func realChain() plan.Chain {
	return plan.New("real", plan.Goal{Command: script("G", goalText), Dir: ".", Key: "cmd/goal"}, failure("no a"), realRemedies("no a"), 0, 0, time.Now())
}

func realRemedies(signature string) []plan.Choice {
	real := func(name, rest string) plan.Choice {
		c := option(name)
		c.Command = script(name, rest+"\ndie after")
		return c
	}
	switch signature {
	case "no a":
		return []plan.Choice{real("A", "test -d cache || { echo no cache >&2; exit 1; }; touch a")}
	case "no cache":
		return []plan.Choice{real("B", "mkdir -p cache")}
	case "no c":
		c := real("C", "test -e d && touch c")
		c.Availability, c.Needs = "locked", []plan.Need{{Goal: "tool/d", Label: "install d", Options: []plan.Choice{real("D", "touch d")}}}
		return []plan.Choice{c}
	}
	return nil
}

// theWay is what runs when nothing goes wrong.
const theWay = "A B A G D C G"

type realDoer struct{ dir string }

func (d realDoer) Judge(plan.Move) (action.Decision, string)       { return action.Auto, "" }
func (d realDoer) Wait(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (d realDoer) Verify(ctx context.Context) (Outcome, error) {
	return d.sh(ctx, realChain().Goal.Command)
}
func (d realDoer) Run(ctx context.Context, m plan.Move) (Outcome, error) {
	return d.sh(ctx, m.Command)
}

func (d realDoer) sh(ctx context.Context, command string) (Outcome, error) {
	_, err := proc.Tool{Dir: d.dir}.Run(ctx, "sh", "-c", command)
	var failed *proc.ToolError
	if !errors.As(err, &failed) {
		return Outcome{OK: err == nil}, err
	}
	s := strings.TrimSpace(failed.Stderr)
	return Outcome{Text: fmt.Sprintf("exit code %d: %s", failed.Code, s), Failure: failure(s), Options: realRemedies(s)}, nil
}

// saving are the steps of the disk before and after which a save counts.
var saving = []string{"chain:rename", "chain:dirsync"}

// victim walks the chain and dies of SIGKILL before the physical step of that
// number; with a number below 0 it prints them instead.
func victim(args []string) error {
	at, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	n := 0
	s := Store{Dir: filepath.Join(args[0], "chains"), Disk: durable.OS().WithFault(func(op string) error {
		if !slices.Contains(saving, op) {
			return nil
		}
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
	c := realChain()
	return Walk(context.Background(), &c, s, realDoer{args[0]}, time.Now)
}

// run walks in a process of its own.
func run(t *testing.T, dir string, at int, die string) (killed bool, out string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir+"\n"+strconv.Itoa(at), "DIE="+die)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true, string(text)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return false, string(text)
}

func ran(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), " ")
}

// goOn is the next supervisor. It must not run by itself what was begun, and reach
// the same end once an operator has said what to do.
func goOn(t *testing.T, dir string) (asked bool) {
	t.Helper()
	s := Store{Dir: filepath.Join(dir, "chains")}
	before := ran(t, dir)
	if n := len(strings.Fields(before)); n > 0 && !strings.HasPrefix(theWay, before) {
		t.Fatalf("before the kill %s ran, not a beginning of %s", before, theWay)
	}
	c, err := s.Load("real")
	if errors.Is(err, os.ErrNotExist) {
		c, err = realChain(), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	walk := func() error { return Walk(t.Context(), &c, s, realDoer{dir}, time.Now) }
	err = walk()
	var lost *LostError
	if asked = errors.As(err, &lost); asked {
		if err := walk(); !errors.As(err, &lost) || ran(t, dir) != before {
			t.Fatalf("asked twice: %v; ran: %s", err, ran(t, dir))
		}
		if c, err = s.Change("real", func(c *plan.Chain) error { return c.Again(time.Now()) }); err != nil {
			t.Fatal(err)
		}
		err = walk()
	}
	if err != nil || c.Status != plan.Done {
		t.Fatalf("%v; %s", err, plan.Describe(c, 100))
	}
	got := strings.Fields(ran(t, dir))
	if more := len(got) - len(strings.Fields(theWay)); more > 0 && !asked || more > 1 {
		t.Errorf("%v ran, asked: %v", got, asked)
	}
	if got := strings.Join(slices.Compact(got), " "); got != theWay {
		t.Errorf("%s ran, want %s", got, theWay)
	}
	return asked
}

// Conforms: 000-5.6-save, 000-14.1
func TestKilledAtEverySave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, out := run(t, dir, -1, "")
	if got := ran(t, dir); got != theWay {
		t.Fatalf("%s ran, want %s", got, theWay)
	}
	steps := strings.Fields(out)
	if len(steps) < 2*16 {
		t.Fatalf("only %d steps: %s", len(steps), out)
	}
	for at := range steps {
		t.Run(fmt.Sprintf("%d-%s", at, steps[at]), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if killed, out := run(t, dir, at, ""); !killed {
				t.Fatalf("it was not killed: %s", out)
			}
			goOn(t, dir)
		})
	}
}

// Conforms: 000-5.6-load
func TestKilledInTheMiddleOfACommand(t *testing.T) {
	t.Parallel()
	for n := range len(strings.Fields(theWay)) {
		for _, when := range []string{"before", "after"} {
			if n == 0 && when == "after" || n == 3 && when == "after" {
				continue // it fails before it gets there
			}
			t.Run(fmt.Sprintf("%s-%d", when, n+1), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if killed, out := run(t, dir, 1<<30, fmt.Sprintf("%s %d", when, n+1)); !killed {
					t.Fatalf("it was not killed: %s", out)
				}
				if !goOn(t, dir) {
					t.Error("nobody was asked")
				}
			})
		}
	}
}
