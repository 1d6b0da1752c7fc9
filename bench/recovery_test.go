package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// samples is how often each latency is measured in one run of the loop.
const samples = 40

// proposer is the agent of BenchmarkRecovery: it leaves a proposal by renaming
// it into its place, keeps the time right before that, and ends.
const proposer = `package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	dir := os.Getenv("SUPERLOOP_LOOP_DIR")
	err := os.WriteFile(filepath.Join(dir, "new"), []byte(os.Getenv("PROPOSAL")), 0o644)
	stamps, serr := os.OpenFile("renamed", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil || serr != nil {
		fmt.Fprintln(os.Stderr, err, serr)
		os.Exit(1)
	}
	fmt.Fprintln(stamps, time.Now().UnixMicro())
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "recovery.json")); err != nil {
		os.Exit(1)
	}
}
`

const proposal = `{"version": 1, "timestamp": "2026-01-23T05:36:33Z", "category": "dependency", "severity": "blocking",
 "diagnosis": {"error_pattern": "x", "root_cause": "y", "evidence": ["z:1"]},
 "recovery": {"command": "echo $EPOCHREALTIME >> started", "expected_outcome": "o", "confidence": "high"}}`

// stamps reads one time in microseconds a line; a dot in it is left out.
func stamps(b *testing.B, file string) []int64 {
	b.Helper()
	data, err := os.ReadFile(file)
	must(b, err)
	var all []int64
	for _, word := range strings.Fields(strings.ReplaceAll(string(data), ".", "")) {
		n, err := strconv.ParseInt(word, 10, 64)
		must(b, err)
		all = append(all, n)
	}
	return all
}

// reportLatency reports the median and the ninth decile of times in microseconds.
func reportLatency(b *testing.B, what string, us []int64) {
	b.Helper()
	slices.Sort(us)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(us[len(us)/2])/1e3, "ms-"+what)
	b.ReportMetric(float64(us[len(us)*9/10])/1e3, "ms-p90-"+what)
}

// recoveryRepo is a repository whose loop has one tester, which is argv.
func recoveryRepo(b *testing.B, argv ...string) string {
	b.Helper()
	dir := repo(b)
	must(b, os.WriteFile(filepath.Join(dir, ".superloop/config.json"), recoveryConfig(0, argv...), 0o644))
	return dir
}

func recoveryConfig(cooldown int, argv ...string) []byte {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = strconv.Quote(w)
	}
	return fmt.Appendf(nil, `{
  "runners": {"agent": {"command": [%s], "args": []}},
  "recovery": {"auto_approve": ["echo $EPOCHREALTIME >> started"], "cooldown_seconds": %d, "max_auto_recoveries_per_run": %d},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": %d, "completion_promise": "NEVER", "completion": {"allow_ungated": true}, "respond": {"insist": []}, "roles": ["tester"]}]}`,
		strings.Join(words, ", "), cooldown, samples+1, samples)
}

// BenchmarkRecovery is the time from the rename of recovery.json, by an agent
// that ends right after it, to the first thing that the approved command does:
// in between are the end of the role, the verdict, what is kept for undo, three
// flushes to disk, and the sandbox. The floor is a bash that is started for it.
func BenchmarkRecovery(b *testing.B) {
	exe := build(b, "github.com/superloop/superloop/cmd/superloop", "superloop")
	src := b.TempDir()
	must(b, os.WriteFile(filepath.Join(src, "main.go"), []byte(proposer), 0o644))
	agent := build(b, filepath.Join(src, "main.go"), "agent")
	var us, floor []int64
	for b.Loop() {
		dir := recoveryRepo(b, agent)
		measure(b, dir, []string{"XDG_STATE_HOME=" + b.TempDir(), "PROPOSAL=" + proposal}, 8, exe, "run")
		from, to := stamps(b, filepath.Join(dir, "renamed")), stamps(b, filepath.Join(dir, "started"))
		if len(from) != samples || len(to) != samples {
			b.Fatalf("%d proposals and %d commands, want %d of each", len(from), len(to), samples)
		}
		for i := range from {
			us = append(us, to[i]-from[i])
			begun := time.Now().UnixMicro()
			measure(b, dir, nil, 0, "bash", "--noprofile", "--norc", "-c", "echo $EPOCHREALTIME >> floor")
			floor = append(floor, stamps(b, filepath.Join(dir, "floor"))[len(floor)%samples]-begun)
		}
	}
	slices.Sort(floor)
	reportLatency(b, "rename-to-command", us)
	b.ReportMetric(float64(floor[len(floor)/2])/1e3, "ms-bash-alone")
}

// BenchmarkReload is the time from the rename of config.json, while a role runs,
// to the line config_reloaded in events.jsonl, as somebody sees it who looks.
func BenchmarkReload(b *testing.B) {
	exe := build(b, "github.com/superloop/superloop/cmd/superloop", "superloop")
	var us []int64
	for b.Loop() {
		us = append(us, reloads(b, exe)...)
	}
	reportLatency(b, "rename-to-reloaded", us)
}

// reloads changes the configuration of a loop again and again and gives how long
// each change took to be in the journal.
func reloads(b *testing.B, exe string) []int64 {
	argv := []string{"sleep", "1000"}
	dir := recoveryRepo(b, argv...)
	cmd := exec.Command(exe, "run")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+b.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(b, cmd.Start())
	defer func() {
		must(b, cmd.Process.Signal(os.Interrupt))
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			b.Fatal(err)
		}
	}()
	journal := filepath.Join(dir, ".superloop/loops/l/events.jsonl")
	seen := func(event string, n int) {
		limit := time.Now().Add(time.Minute)
		for {
			data, err := os.ReadFile(journal)
			if err == nil && bytes.Count(data, []byte(`"event":"`+event+`"`)) >= n {
				return
			}
			if time.Now().After(limit) {
				b.Fatalf("no %d %s\n%s", n, event, out.Bytes())
			}
		}
	}
	seen("role_start", 1)
	var us []int64
	config := filepath.Join(dir, ".superloop/config.json")
	for i := range samples {
		must(b, os.WriteFile(config+".new", recoveryConfig(i+1, argv...), 0o644))
		begun := time.Now()
		must(b, os.Rename(config+".new", config))
		seen("config_reloaded", i+1)
		us = append(us, time.Since(begun).Microseconds())
	}
	return us
}
