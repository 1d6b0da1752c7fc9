//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ageVariable sets how many iterations BenchmarkAge runs. The target is about 1,000;
// ageDefault tells a continuous integration whether the cost grows.
const (
	ageVariable = "SUPERLOOP_BENCH_AGE"
	ageDefault  = 200
	ageSpan     = 50 // iterations that are compared: the last, and those after the fifth
	ageFrom     = 5
)

// oldRepo is a repository whose loop runs four roles per iteration that do nothing,
// or, for commits, of which the second changes one file. It has no
// .superloop/.gitignore, as a repository that was set up by hand.
func oldRepo(b *testing.B, n int, commits bool) string {
	b.Helper()
	dir := b.TempDir()
	must(b, os.MkdirAll(filepath.Join(dir, ".superloop/specs"), 0o755))
	must(b, os.WriteFile(filepath.Join(dir, ".superloop/specs/l.md"), []byte("# nothing\n"), 0o644))
	worker, git := `"/bin/true"`, "never"
	if commits {
		worker, git = `"/bin/sh", "-c", "echo $SUPERLOOP_ITERATION > work.txt"`, "per_iteration"
	}
	must(b, os.WriteFile(filepath.Join(dir, ".superloop/config.json"), fmt.Appendf(nil, `{
  "runners": {"noop": {"command": ["/bin/true"], "args": []}, "worker": {"command": [%s], "args": []}},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": %d, "completion_promise": "NEVER", "completion": {"allow_ungated": true}, "respond": {"insist": []},
    "stuck": {"enabled": true, "threshold": 10000}, "timeouts": {"enabled": true, "default": 60}, "git": {"commit_strategy": %q},
    "roles": {"planner": {"runner": "noop"}, "implementer": {"runner": "worker"}, "tester": {"runner": "noop"}, "reviewer": {"runner": "noop"}}}]}`, worker, n, git), 0o644))
	for _, args := range [][]string{{"init", "-q", "--template="}, {"config", "user.name", "b"}, {"config", "user.email", "b@example.invalid"},
		{"add", "-A"}, {"commit", "-q", "-m", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

// spent is what a supervisor and all that it started have taken by a moment.
type spent struct {
	ticks   int64 // of the clock of /proc, mostly 10 ms
	written int64 // bytes that the supervisor itself has written
}

// spentBy looks at a process and all that descends from it. What has ended counts
// for who waited for it.
func spentBy(b *testing.B, pid int) (s spent) {
	b.Helper()
	type process struct {
		parent int
		ticks  int64
	}
	all := map[int]process{}
	entries, err := os.ReadDir("/proc")
	must(b, err)
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		p := process{}
		p.parent, _ = strconv.Atoi(f[1])
		for _, ticks := range f[11:15] { // utime, stime, cutime, cstime
			n, _ := strconv.ParseInt(ticks, 10, 64)
			p.ticks += n
		}
		all[id] = p
	}
	for id, p := range all {
		for at := id; at > 1; at = all[at].parent {
			if at == pid {
				s.ticks += p.ticks
				break
			}
		}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	must(b, err)
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "wchar: "); ok {
			s.written, _ = strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		}
	}
	return s
}

// aged runs the loop to its end, looks at the supervisor when it begins the
// ends of the span, and calls near when it begins the fifth iteration before the
// span.
func aged(b *testing.B, exe, dir, state string, span [2]int, near func()) map[int]spent {
	b.Helper()
	cmd := exec.Command(exe, "run")
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), "XDG_STATE_HOME="+state), &out, &out
	must(b, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	seen := map[int]spent{}
	var events *os.File
	var rest []byte
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	buf := make([]byte, 1<<16)
	for {
		select {
		case err := <-ended:
			if cmd.ProcessState.ExitCode() != 8 || len(seen) != len(span) {
				b.Fatalf("%v, %d of %d looks\n%s", err, len(seen), len(span), out.Bytes())
			}
			return seen
		case <-look.C:
		}
		if events == nil {
			events, _ = os.Open(journalOf(dir))
			continue
		}
		n, _ := events.Read(buf)
		rest = append(rest, buf[:n]...)
		whole := bytes.LastIndexByte(rest, '\n') + 1
		for line := range bytes.Lines(rest[:whole]) {
			begins := func(iteration int) bool {
				return bytes.Contains(line, []byte(`"event":"iteration_start"`)) && bytes.Contains(line, fmt.Appendf(nil, `"iteration":%d,`, iteration))
			}
			if begins(span[0] - ageFrom) {
				near()
			}
			for _, mark := range span {
				if begins(mark) {
					seen[mark] = spentBy(b, cmd.Process.Pid)
				}
			}
		}
		rest = rest[whole:]
	}
}

func journalOf(dir string) string { return filepath.Join(dir, ".superloop/loops/l/events.jsonl") }

// begun are the times at which the iterations of a journal began.
func begun(b *testing.B, dir string) map[int]time.Time {
	b.Helper()
	f, err := os.Open(journalOf(dir))
	must(b, err)
	defer f.Close()
	at := map[int]time.Time{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"iteration_start"`)) {
			continue
		}
		var ev struct {
			Timestamp time.Time
			Iteration int
		}
		must(b, json.Unmarshal(lines.Bytes(), &ev))
		at[ev.Iteration] = ev.Timestamp
	}
	must(b, lines.Err())
	return at
}

// kept counts the files below a directory.
func kept(b *testing.B, dir string) (files, size float64) {
	b.Helper()
	must(b, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			info, err := e.Info()
			if err != nil {
				return err
			}
			files, size = files+1, size+float64(info.Size())
		}
		return err
	}))
	return files, size
}

// ageing is what an iteration of a loop takes, of those that are compared.
type ageing struct{ wall, cpu, written float64 }

func ageOf(b *testing.B, exe, dir, state string, span [2]int, near func()) ageing {
	b.Helper()
	seen := aged(b, exe, dir, state, span, near)
	at := begun(b, dir)
	from, to := seen[span[0]], seen[span[1]]
	return ageing{float64(at[span[1]].Sub(at[span[0]])) / ageSpan, float64(to.ticks-from.ticks) / ageSpan, float64(to.written-from.written) / ageSpan}
}

// BenchmarkAge shows whether an iteration costs more the older its loop is: the last
// fifty iterations of a loop of four roles that do nothing, against the fifty after
// the fifth of another that is begun when the old one comes to them. The two run at the
// same time, because a machine that gets busier in between would be taken for age.
// The target at 1,000 iterations is 1.2 for wall and CPU.
func BenchmarkAge(b *testing.B) {
	n := ageDefault
	if v := os.Getenv(ageVariable); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		must(b, err)
	}
	exe := build(b, "github.com/superloop/superloop/cmd/superloop", "superloop")
	for _, commits := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "commits"}[commits], func(b *testing.B) {
			for b.Loop() {
				dir, state := oldRepo(b, n, commits), b.TempDir()
				youngDir, youngState := oldRepo(b, ageFrom+ageSpan, commits), b.TempDir()
				young := make(chan ageing, 1)
				old := ageOf(b, exe, dir, state, [2]int{n - ageSpan, n}, func() {
					go func() {
						defer close(young) // also where it has failed
						young <- ageOf(b, exe, youngDir, youngState, [2]int{ageFrom, ageFrom + ageSpan}, func() {})
					}()
				})
				fresh := <-young
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(old.wall/fresh.wall, "wall-old/young")
				b.ReportMetric(old.cpu/fresh.cpu, "cpu-old/young")
				b.ReportMetric(fresh.wall/1e6, "ms-wall-young/iter")
				b.ReportMetric(old.wall/1e6, "ms-wall-old/iter")
				b.ReportMetric(fresh.written/1024, "KiB-written-young/iter")
				b.ReportMetric(old.written/1024, "KiB-written-old/iter")
				for what, dir := range map[string]string{"private": state, "loop": filepath.Join(dir, ".superloop/loops/l")} {
					files, size := kept(b, dir)
					b.ReportMetric(files/float64(n), "files-"+what+"/iter")
					b.ReportMetric(size/1024/float64(n), "KiB-"+what+"/iter")
				}
			}
		})
	}
}
