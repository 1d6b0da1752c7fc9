package sandbox

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

// What the sandbox costs: Bash is the floor, Spawner the same under internal/proc,
// Run what a recovery gets. ns/op is until it has ended, first-us until its first
// instruction has been heard of, cpu-us what its processes used. The ratios
// count, of runs that are made together:
//
//	go test -run - -bench 'Bash|Spawner|Run' -count 5 ./recovery/sandbox
//
// The shim is this test binary; for superloop itself, which needs some
// milliseconds more to start, see the benchmark beside its main.

const benchCommand = "echo"

var benchArgv = []string{"/bin/bash", "--noprofile", "--norc", "-o", "pipefail", "-c", "--", benchCommand}

// first takes the time of the first output of each run.
type first struct {
	begin time.Time
	sum   time.Duration
	cpu   time.Duration
	heard bool
}

func (f *first) start() { f.begin, f.heard = time.Now(), false }

func (f *first) Write(p []byte) (int, error) {
	if !f.heard {
		f.heard = true
		f.sum += time.Since(f.begin)
	}
	return len(p), nil
}

func (f *first) report(b *testing.B) {
	b.ReportMetric(float64(f.sum.Microseconds())/float64(b.N), "first-us/op")
	b.ReportMetric(float64(f.cpu.Microseconds())/float64(b.N), "cpu-us/op")
}

func BenchmarkBash(b *testing.B) {
	var f first
	for b.Loop() {
		f.start()
		cmd := exec.Command(benchArgv[0], benchArgv[1:]...)
		cmd.Stdout = &f
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		f.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	f.report(b)
}

func BenchmarkSpawner(b *testing.B) {
	s, err := proc.Start(proc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var f first
	for b.Loop() {
		f.start()
		res, err := s.Run(context.Background(), proc.Spec{Argv: benchArgv, Stdout: func(p []byte) { _, _ = f.Write(p) }})
		if err != nil || res.Code != 0 {
			b.Fatal(err, res.Err)
		}
		f.cpu += res.UserTime + res.SystemTime
	}
	f.report(b)
}

func BenchmarkRun(b *testing.B) {
	for _, c := range []struct {
		level   Level
		without []Mechanism
		network Network
	}{
		{LandlockMount, nil, FullNetwork},
		{LandlockMount, nil, NoNetwork},
		{Mount, []Mechanism{UseLandlock}, FullNetwork},
		{Landlock, []Mechanism{UseMount}, FullNetwork},
		{None, []Mechanism{UseLandlock, UseMount}, FullNetwork},
	} {
		b.Run(string(c.level)+"/"+string(c.network), func(b *testing.B) {
			w := newWorld(b, os.Getuid(), "")
			j := w.job(b, benchCommand)
			j.Without, j.Network = c.without, c.network
			spec := j.spec()
			var f first
			spec.Output = &f
			for b.Loop() {
				f.start()
				res, err := Run(context.Background(), w.spawner, spec)
				if err != nil || res.Code != 0 || res.Sandbox.Level != c.level {
					b.Fatal(err, outcomeOf(res, nil))
				}
				f.cpu += res.UserTime + res.SystemTime
			}
			f.report(b)
		})
	}
}
