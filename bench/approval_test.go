package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// approvals are the milliseconds that one answer of an operator takes.
type approvals struct {
	toCommand []int64 // from the start of approve-recovery to the first act of the command
	verb      []int64 // the whole of approve-recovery
	wake      []int64 // from its end to the first act of the command
}

// BenchmarkApproval is the time from the start of the process approve-recovery to
// the first thing that the approved command does. The supervisor is alive and
// waits; in between are the start of a process, the answer on the disk (file and
// directory), the supervisor's wake-up, the look at all that the approval stands
// on, what is kept for undo, the flushes to disk, and the sandbox. The floors are a
// superloop that only tells its version, and a bash.
func BenchmarkApproval(b *testing.B) {
	exe := build(b, "github.com/superloop/superloop/cmd/superloop", "superloop")
	src := b.TempDir()
	must(b, os.WriteFile(filepath.Join(src, "main.go"), []byte(proposer), 0o644))
	agent := build(b, filepath.Join(src, "main.go"), "agent")
	var all approvals
	var version, bash []int64
	for b.Loop() {
		a := approveAll(b, exe, agent)
		all.toCommand, all.verb, all.wake = append(all.toCommand, a.toCommand...), append(all.verb, a.verb...), append(all.wake, a.wake...)
		dir := b.TempDir()
		for range samples {
			version = append(version, measure(b, dir, nil, 0, exe, "version").wall.Microseconds())
			bash = append(bash, measure(b, dir, nil, 0, "bash", "--noprofile", "--norc", "-c", ":").wall.Microseconds())
		}
	}
	reportLatency(b, "approve-to-command", all.toCommand)
	for what, us := range map[string][]int64{"ms-verb": all.verb, "ms-wake-to-command": all.wake, "ms-version-alone": version, "ms-bash-alone": bash} {
		slices.Sort(us)
		b.ReportMetric(float64(us[len(us)/2])/1e3, what)
	}
}

// approveAll runs a loop that asks in each of its iterations, and approves.
func approveAll(b *testing.B, exe, agent string) approvals {
	b.Helper()
	dir, env := repo(b), append(os.Environ(), "XDG_STATE_HOME="+b.TempDir(), "PROPOSAL="+proposal)
	must(b, os.WriteFile(filepath.Join(dir, ".superloop/config.json"), fmt.Appendf(nil, `{
  "runners": {"agent": {"command": [%q], "args": []}},
  "recovery": {"auto_approve": []},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": %d, "completion_promise": "NEVER", "completion": {"allow_ungated": true}, "respond": {"insist": []}, "roles": ["tester"]}]}`,
		agent, samples), 0o644))
	run := exec.Command(exe, "run")
	var out bytes.Buffer
	run.Dir, run.Env, run.Stdout, run.Stderr = dir, env, &out, &out
	must(b, run.Start())
	var got approvals
	last := ""
	for range samples {
		last = waiting(b, dir, last, &out)
		approve := exec.Command(exe, "approve-recovery", "--loop", "l")
		approve.Dir, approve.Env = dir, env
		begun := time.Now()
		text, err := approve.CombinedOutput()
		ended := time.Now()
		if err != nil {
			b.Fatalf("%v\n%s", err, text)
		}
		started := firstAct(b, dir, len(got.verb), &out)
		got.toCommand = append(got.toCommand, started-begun.UnixMicro())
		got.verb = append(got.verb, ended.Sub(begun).Microseconds())
		got.wake = append(got.wake, max(0, started-ended.UnixMicro()))
	}
	var exit *exec.ExitError
	if err := run.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 8 {
		b.Fatalf("run: %v\n%s", err, out.Bytes())
	}
	return got
}

// waiting waits until the loop waits for the answer to a question other than last,
// which its supervisor says right before it does, and gives that question's id.
func waiting(b *testing.B, dir, last string, out *bytes.Buffer) string {
	b.Helper()
	var state struct {
		Status string
		Human  struct {
			Question string `json:"question"`
		}
	}
	var asked struct{ ID, Status string }
	until(b, out, func() bool {
		for file, into := range map[string]any{"state.json": &state, "escalation.json": &asked} {
			data, err := os.ReadFile(filepath.Join(dir, ".superloop/loops/l", file))
			if err != nil || json.Unmarshal(data, into) != nil {
				return false
			}
		}
		return state.Status == "awaiting_human" && asked.Status == "pending" && asked.ID == state.Human.Question && asked.ID != last
	})
	return asked.ID
}

// firstAct waits for what the command leaves, and gives its time.
func firstAct(b *testing.B, dir string, before int, out *bytes.Buffer) int64 {
	b.Helper()
	file := filepath.Join(dir, "started")
	until(b, out, func() bool {
		data, err := os.ReadFile(file)
		return err == nil && bytes.Count(data, []byte("\n")) > before
	})
	return stamps(b, file)[before]
}

// until looks again and again, as what another process does is not told to this
// one, and lets the machine's processors to those that work meanwhile.
func until(b *testing.B, out *bytes.Buffer, ok func() bool) {
	b.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-limit.C:
			b.Fatalf("it did not come to that\n%s", out.Bytes())
		}
	}
}
