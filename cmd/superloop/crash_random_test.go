package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// killRounds is how many kills the random campaign has: a sample in go test, 500 with
// SUPERLOOP_SLOW_TESTS=all.
func killRounds() int {
	return testkit.Sample(2, 100, 500)
}

// kill starts a verb of the real program and kills it with SIGKILL after a time that chance
// decides. A verb that has ended by then is not killed.
func (n *testEnv) kill(after time.Duration, args ...string) {
	n.t.Helper()
	cmd := exec.Command(n.path("bin/superloop"), args...)
	cmd.Dir, cmd.Env = n.path("repo"), n.env
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
}

// TestVerbsKilledAtRandom kills verbs at moments that chance chooses, one after the other in
// one repository. Before each, a person leaves a file in the loop's directory, with the name of
// one that is there already in some archive. The next fresh run then comes to its end as if nothing
// had happened; the journal is whole, and each file of a person is in an archive, once.
func TestVerbsKilledAtRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	n := newTestEnv(t, true)
	loopDir := n.path("repo/.superloop/loops/l")
	verbs := [][]string{
		{"run", "--fresh", "--unprotected", "--exit-on-escalation"},
		{"run", "--fresh", "--unprotected", "--exit-on-escalation"},
		{"run", "--unprotected", "--exit-on-escalation"},
		{"approve", "--by", "eve"},
		{"cancel", "--by", "eve"},
		{"config", "trust"},
	}
	begin := time.Now()
	n.superloop(nil, verbs[0]...)
	whole := time.Since(begin)
	for round := range killRounds() {
		n.write("repo/.superloop/loops/l/note.md", fmt.Sprintf("note of round %d\n", round))
		verb := verbs[chance.IntN(len(verbs))]
		bound := whole // most of the steps that move files lie in the first part
		if verb[0] != "run" || chance.IntN(2) == 0 {
			bound = whole / 4
		}
		after := time.Duration(chance.Int64N(int64(bound)))
		n.kill(after, verb...)
		what := fmt.Sprintf("round %d: killed %s after %v", round, strings.Join(verb, " "), after)
		rep, err := journal.Verify(filepath.Join(loopDir, "events.jsonl"))
		if err != nil || rep.FirstBad != nil && !rep.FirstBad.Torn {
			t.Fatalf("%s: the journal: %v %v", what, err, rep.FirstBad)
		}
		// The next fresh run moves the note away, wherever the kill left it.
		code, out := n.superloop(nil, verbs[0]...)
		if code != exitHuman && code != exitStuck { // a later run finds the work done
			t.Fatalf("%s; then run --fresh gave %d\n%s", what, code, out)
		}
	}
	found := map[string]int{}
	err := filepath.WalkDir(loopDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(e.Name(), "note.md") {
			return err
		}
		text, err := os.ReadFile(path)
		found[string(text)]++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for round := range killRounds() {
		if note := fmt.Sprintf("note of round %d\n", round); found[note] != 1 {
			t.Errorf("%q is there %d times", note, found[note])
		}
	}
}

// TestAnswersKilledAtRandom kills verbs of a loop that asks about each command: the run, the answer, a change of the
// configuration under way, the trust in it, the undo. A round then ends as an undisturbed one does: the command has run
// at most as often as the journal says, and the undo puts back what it has changed.
func TestAnswersKilledAtRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	n := brokenEnv(t)
	const file = "repo/.superloop/config.json"
	data, err := os.ReadFile(n.path(file))
	if err != nil {
		t.Fatal(err)
	}
	asking := strings.Replace(string(data), `"auto_approve": ["echo ran >> ran.txt && touch fixed"]`, `"require_human": ["*"]`, 1)
	// An undo between the kills may take the only change back.
	asking = strings.Replace(asking, `"max_iterations": 6,`, `"max_iterations": 6, "completion": {"require_change": false},`, 1)
	n.write(file, asking)
	n.write("repo/ran.txt", "before\n")
	n.write("repo/.gitignore", "made\n")
	verbs := [][]string{
		{"run", "--exit-on-escalation"},
		{"run", "--exit-on-escalation"},
		{"approve-recovery", "--by", "eve"},
		{"approve-recovery", "--by", "eve"},
		{"config", "trust"},
		{"kick", "--by", "eve"},
		{"undo", "--loop", "l"},
	}
	begin := time.Now()
	n.superloop(nil, verbs[0]...)
	whole := time.Since(begin)
	for killed, before := 0, 0; killed < killRounds(); {
		what := ""
		for range 1 + chance.IntN(6) {
			verb := verbs[chance.IntN(len(verbs))]
			after := time.Duration(chance.Int64N(int64(whole)))
			blanks := chance.IntN(9)
			changed := time.AfterFunc(time.Duration(chance.Int64N(int64(2*whole))), func() {
				_ = os.WriteFile(n.path(file), fmt.Appendf(nil, "%s%*s", asking, blanks, ""), 0o644)
			})
			n.kill(after, verb...)
			changed.Stop()
			killed++
			what += fmt.Sprintf("%s killed after %v; ", strings.Join(verb, " "), after)
		}
		n.finishAsking(what)
		ids, _ := n.executions()
		begun := len(ids) - before
		before = len(ids)
		if n.ran() > begun {
			t.Fatalf("%sthe command ran %d times, and %d times it was recorded that it would", what, n.ran(), begun)
		}
		numbers := n.executed()
		for _, i := range slices.Backward(numbers[len(numbers)-begun:]) { // the last one first
			undo := []string{"undo", "--loop", "l", "--recovery", strconv.Itoa(i)}
			if chance.IntN(2) == 0 {
				n.kill(time.Duration(chance.Int64N(int64(whole/4))), undo...)
				killed++
			}
			code, out := n.superloop(nil, undo...)
			if code == exitFailed && strings.Contains(out, "it is not known whether the command or somebody else changed it") {
				code, out = n.superloop(nil, append(undo, "--force")...) // the command was killed behind a change
			}
			if code != exitOK {
				t.Fatalf("%sundo of %d gave %d\n%s", what, i, code, out)
			}
		}
		if got, err := os.ReadFile(n.path("repo/ran.txt")); err != nil || string(got) != "before\n" {
			t.Fatalf("%sran.txt after the undo: %q %v", what, got, err)
		}
		if err := os.Remove(n.path("repo/fixed")); err != nil { // new files stay
			t.Fatal(err)
		}
		_ = os.Remove(n.path("repo/ran.txt.superloop-undo-conflict")) // only --force makes it
		n.superloop(nil, "run", "--fresh", "--exit-on-escalation")
	}
}

// executed has the number of each recovery whose command was about to be started; each run begins with 1.
func (n *testEnv) executed() (numbers []int) {
	n.t.Helper()
	for _, ev := range n.events() {
		fact, err := loop.DecodeFact(ev.Event, ev.Fields)
		if err != nil {
			n.t.Fatal(err)
		}
		if f, ok := fact.(loop.Executing); ok {
			numbers = append(numbers, f.N)
		}
	}
	return numbers
}

// finishAsking runs until the loop is complete and answers each question.
func (n *testEnv) finishAsking(what string) {
	n.t.Helper()
	for range 8 {
		code, out := n.superloop(nil, "run", "--exit-on-escalation")
		switch {
		case code == exitOK:
			n.ranAsRecorded(what, 0) // an undo between the kills takes it back
			return
		case code == exitStuck: // a kick said that it is mended, and it is not; the next run asks again
			continue
		case code != exitHuman:
			n.t.Fatalf("%srun gave %d\n%s", what, code, out)
		}
		for _, answer := range []string{"approve-recovery", "kick"} { // the second for a command whose end is not known
			if code, out = n.superloop(nil, answer, "--by", "eve"); code == exitOK {
				break
			}
		}
		if code != exitOK {
			n.t.Fatalf("%sno answer was taken: %d\n%s", what, code, out)
		}
	}
	n.t.Fatalf("%snever completed", what)
}
