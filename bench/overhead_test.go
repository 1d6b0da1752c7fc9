package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const (
	iterations = 20
	rounds     = 5 // interleaved; the median counts
)

// build compiles the program as a release is compiled; more are flags of go build.
func build(b *testing.B, pkg, name string, more ...string) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), name)
	// As a release is built: without libc, a start costs 1 to 2 ms less.
	args := append([]string{"CGO_ENABLED=0", "go", "build", "-trimpath", "-tags", "urfave_cli_no_docs", "-ldflags", "-s -w", "-o", out}, more...)
	cmd := exec.Command("env", append(args, pkg)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
	return out
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// usage is what a process and all that it waited for took.
type usage struct {
	wall, cpu time.Duration
	rss       int64 // KiB, the largest process
}

func measure(b *testing.B, dir string, env []string, code int, argv ...string) usage {
	b.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	started := time.Now()
	err := cmd.Run()
	wall := time.Since(started)
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		b.Fatalf("%v: %v\n%s", argv, err, out.Bytes())
	}
	ru := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return usage{wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), ru.Maxrss}
}

func median(list []usage, of func(usage) float64) float64 {
	var v []float64
	for _, u := range list {
		v = append(v, of(u))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// repo is a repository whose loop runs four no-op roles per iteration.
func repo(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	must(b, os.MkdirAll(filepath.Join(dir, ".superloop/specs"), 0o755))
	must(b, os.WriteFile(filepath.Join(dir, ".superloop/specs/l.md"), []byte("# nothing\n"), 0o644))
	must(b, os.WriteFile(filepath.Join(dir, ".superloop/config.json"), fmt.Appendf(nil, `{
  "runners": {"noop": {"command": ["/bin/true"], "args": []}},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": %d, "completion_promise": "NEVER", "completion": {"allow_ungated": true}, "respond": {"insist": []},
    "stuck": {"enabled": true, "threshold": 1000}, "timeouts": {"enabled": true, "default": 60},
    "roles": ["planner", "implementer", "tester", "reviewer"]}]}`, iterations), 0o644))
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=b", "-c", "user.email=b@example.invalid", "commit", "-q", "--allow-empty", "-m", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

// traced runs the loop under strace and counts, per iteration, the programs
// that were started and the flushes to disk.
func traced(b *testing.B, exe string) (execs, flushes float64) {
	b.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		b.Log("strace is not installed: processes and flushes are not counted; 6 flushes an iteration are assumed")
		return 0, 6
	}
	out := filepath.Join(b.TempDir(), "trace")
	dir := repo(b)
	measure(b, dir, []string{"XDG_STATE_HOME=" + b.TempDir()}, 8, strace, "-f", "-qq", "-e", "trace=execve,fsync,fdatasync", "-e", "signal=none", "-o", out, exe, "run")
	text, err := os.ReadFile(out)
	must(b, err)
	count := func(re string) float64 {
		return float64(len(regexp.MustCompile(re).FindAll(text, -1))) / iterations
	}
	return count(`execve\([^\n]* = 0`), count(`f(?:data)?sync\([^\n]* = 0|<\.\.\. f(?:data)?sync resumed>`)
}

// BenchmarkSupervisor is the supervisor's own cost: 20 iterations of four no-op
// roles against a bare shell loop that starts the same no-op processes, gives
// them the same redirections, and flushes a file as often.
func BenchmarkSupervisor(b *testing.B) {
	exe := build(b, "github.com/superloop/superloop/cmd/superloop", "superloop")
	execs, flushes := traced(b, exe)
	all := strconv.Itoa(int(flushes + 0.5))
	shell := `i=0; while [ $i -lt ` + strconv.Itoa(iterations) + ` ]; do for r in planner implementer tester reviewer; do
		/bin/true < prompt > $r.log 2>&1; echo "$r $i" >> events
	done; j=0; while [ $j -lt ` + all + ` ]; do echo "$j" >> events; sync -d events; j=$((j+1)); done; i=$((i+1)); done`
	var ours, floor []usage
	for b.Loop() {
		ours, floor = nil, nil
		for range rounds {
			ours = append(ours, measure(b, repo(b), []string{"XDG_STATE_HOME=" + b.TempDir()}, 8, exe, "run"))
			dir := b.TempDir()
			must(b, os.WriteFile(filepath.Join(dir, "prompt"), nil, 0o644))
			floor = append(floor, measure(b, dir, nil, 0, "bash", "-c", shell))
		}
	}
	wall := func(u usage) float64 { return float64(u.wall) }
	cpu := func(u usage) float64 { return float64(u.cpu) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ours, wall)/median(floor, wall), "wall/shell")
	b.ReportMetric(median(ours, wall)/iterations/1e6, "ms-wall/iter")
	b.ReportMetric(median(ours, cpu)/iterations/1e6, "ms-cpu/iter")
	b.ReportMetric(median(floor, cpu)/iterations/1e6, "ms-cpu-shell/iter")
	b.ReportMetric(execs, "execs/iter")
	b.ReportMetric(flushes, "flushes/iter")
	b.ReportMetric(median(ours, func(u usage) float64 { return float64(u.rss) })/1024, "MiB-rss")
}

// BenchmarkColdStart is the start of a short command against a Go program that
// does nothing.
func BenchmarkColdStart(b *testing.B) {
	exe := build(b, "github.com/superloop/superloop/cmd/superloop", "superloop")
	src := b.TempDir()
	must(b, os.WriteFile(filepath.Join(src, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644))
	noop := build(b, filepath.Join(src, "main.go"), "noop")
	dir, env := repo(b), []string{"XDG_STATE_HOME=" + b.TempDir()}
	measure(b, dir, env, 8, exe, "run")
	for _, verb := range []string{"version", "status"} {
		b.Run(verb, func(b *testing.B) {
			var ours, floor []usage
			for b.Loop() {
				ours, floor = nil, nil
				for range 40 {
					floor = append(floor, measure(b, dir, nil, 0, noop))
					ours = append(ours, measure(b, dir, env, 0, exe, verb))
				}
			}
			wall := func(u usage) float64 { return float64(u.wall) }
			cpu := func(u usage) float64 { return float64(u.cpu) }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ours, wall)/median(floor, wall), "wall/noop")
			b.ReportMetric(median(ours, cpu)/median(floor, cpu), "cpu/noop")
			b.ReportMetric(median(ours, wall)/1e6, "ms")
		})
	}
}
