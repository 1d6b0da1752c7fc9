package proc

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The three that belong together: ForkExec is the floor, OsExec what one would write by hand, RunNoop this package.
//
//	go test -run - -bench 'RunNoop|ForkExec|OsExec' -count 5 ./internal/proc

const noop = "/bin/true"

func BenchmarkForkExec(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	fd := null.Fd()
	attr := &syscall.ProcAttr{Files: []uintptr{fd, fd, fd}, Sys: &syscall.SysProcAttr{Setsid: true}}
	for b.Loop() {
		pid, err := syscall.ForkExec(noop, []string{noop}, attr)
		if err != nil {
			b.Fatal(err)
		}
		var st unix.WaitStatus
		if _, err := unix.Wait4(pid, &st, 0, nil); err != nil || st != 0 {
			b.Fatal(err, st)
		}
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func BenchmarkOsExec(b *testing.B) {
	b.Run("null", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command(noop).Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("capture", func(b *testing.B) { // both streams apart, as RunNoop does
		for b.Loop() {
			cmd := exec.Command(noop)
			cmd.Stdout, cmd.Stderr = writerFunc(func([]byte) {}), writerFunc(func([]byte) {})
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRunNoop(b *testing.B) {
	for _, l := range available() {
		b.Run(string(l), func(b *testing.B) {
			s := spawnerAt(b, l)
			spec := Spec{Argv: []string{noop}}
			b.ReportAllocs()
			for b.Loop() {
				if res := mustRun(b, s, spec); res.Code != 0 || res.Err != nil {
					b.Fatalf("%+v", res)
				}
			}
		})
	}
}

// BenchmarkDrain is 256 MiB from a command through the pipe, with and without a log that takes it all.
func BenchmarkDrain(b *testing.B) {
	const size = 256 << 20
	for name, limit := range map[string]int64{"tap": 0, "log": 1 << 40} {
		b.Run(name, func(b *testing.B) {
			s := spawnerAt(b, "")
			spec := script("exec head -c 268435456 /dev/zero")
			var peak uint64
			n := 0
			spec.Stdout = func(p []byte) {
				if n++; n%1000 == 0 {
					peak = max(peak, heap())
				}
			}
			if limit > 0 {
				spec.Log, spec.LogLimit = writerFunc(func([]byte) {}), limit
			}
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if res := mustRun(b, s, spec); res.Stdout.Bytes != size {
					b.Fatalf("%+v", res)
				}
			}
			b.ReportMetric(float64(peak)/(1<<20), "MiB-heap")
		})
	}
}

// BenchmarkSpawnerStart is what a Spawner costs once: the start of the binary and the level it finds.
func BenchmarkSpawnerStart(b *testing.B) {
	for b.Loop() {
		s, err := Start(Options{})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
