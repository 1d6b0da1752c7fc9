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
	ageSpan     = 50 // iterations that are compared: those after the fifth, and the last
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
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": %d, "completion_promise": "NEVER",
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

// aged runs the loop to its end, and looks at the supervisor when it begins the
// iterations that marks names.
func aged(b *testing.B, exe, dir, state string, marks []int) map[int]spent {
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
	for {
		select {
		case <-ended:
			if cmd.ProcessState.ExitCode() != 8 || len(seen) != len(marks) {
				b.Fatalf("%v, %d of %d looks\n%s", cmd.ProcessState, len(seen), len(marks), out.Bytes())
			}
			return seen
		case <-look.C:
		}
		if events == nil {
			events, _ = os.Open(journalOf(dir))
			continue
		}
		buf := make([]byte, 1<<16)
		n, _ := events.Read(buf)
		rest = append(rest, buf[:n]...)
		whole := bytes.LastIndexByte(rest, '\n') + 1
		for line := range bytes.Lines(rest[:whole]) {
			for _, mark := range marks {
				if bytes.Contains(line, []byte(`"event":"iteration_start"`)) && bytes.Contains(line, fmt.Appendf(nil, `"iteration":%d,`, mark)) {
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

// BenchmarkAge shows whether an iteration costs more the older its loop is: the last
// fifty iterations against the fifty after the fifth, of a loop of four roles that do
// nothing. The target at 1,000 iterations is 1.2 for wall and CPU.
func BenchmarkAge(b *testing.B) {
	n := ageDefault
	if v := os.Getenv(ageVariable); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		must(b, err)
	}
	exe := build(b, "github.com/superloop/superloop/cmd/superloop", "superloop")
	for name, commits := range map[string]bool{"plain": false, "commits": true} {
		b.Run(name, func(b *testing.B) {
			early, late := [2]int{ageFrom, ageFrom + ageSpan}, [2]int{n - ageSpan, n}
			for b.Loop() {
				dir, state := oldRepo(b, n, commits), b.TempDir()
				seen := aged(b, exe, dir, state, []int{early[0], early[1], late[0], late[1]})
				at := begun(b, dir)
				wall := func(m [2]int) float64 { return float64(at[m[1]].Sub(at[m[0]])) / ageSpan }
				cpu := func(m [2]int) float64 { return float64(seen[m[1]].ticks-seen[m[0]].ticks) / ageSpan }
				written := func(m [2]int) float64 { return float64(seen[m[1]].written-seen[m[0]].written) / ageSpan }
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(wall(late)/wall(early), "wall-late/early")
				b.ReportMetric(cpu(late)/cpu(early), "cpu-late/early")
				b.ReportMetric(wall(early)/1e6, "ms-wall-early/iter")
				b.ReportMetric(wall(late)/1e6, "ms-wall-late/iter")
				b.ReportMetric(written(early)/1024, "KiB-written-early/iter")
				b.ReportMetric(written(late)/1024, "KiB-written-late/iter")
				for what, dir := range map[string]string{"private": state, "loop": filepath.Join(dir, ".superloop/loops/l")} {
					files, size := kept(b, dir)
					b.ReportMetric(files/float64(n), "files-"+what+"/iter")
					b.ReportMetric(size/1024/float64(n), "KiB-"+what+"/iter")
				}
			}
		})
	}
}
