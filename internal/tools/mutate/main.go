// Command mutate shows whether the unit tests of a package notice a fault. It puts faults into the package, one at a
// time, and runs the package's own tests with each. A fault that no test notices survives: it is printed with its place
// and with the line before and after.
//
//	go run ./internal/tools/mutate [-n 100] [-seed 1] [-p 2] [-timeout 60s] [-run REGEXP] [-min 85] PACKAGE...
//
// The faults (mutants), in files that are neither tests nor generated:
//
//   - a condition of an if, of a for or of a switch without a tag is negated, or is taken as true or as false. A for is
//     not made endless: only its time limit would notice;
//   - <, <=, >, >=, == and != become their neighbor, && and || each other;
//   - a statement is deleted: a call, an assignment to what exists already, a defer, a go, a send;
//   - a number grows by one, a text gets one character more, a boolean literal is flipped;
//   - a return gives nil instead of its error, or zero values instead of its values.
//
// No fault is put into what says nothing about the tests when it survives: calls of loggers (zap, log, log/slog) and
// panics, with their arguments; methods String and GoString; the text of errors.New and fmt.Errorf.
//
// A mutant that the type checker refuses is not counted, and another one of the same file is drawn instead. Each file
// gets as many mutants as its share of all candidates; the same seed draws the same mutants from the same sources.
//
// A mutant may kill, write and delete whatever it can reach, with the rights of whoever runs it. So it is only compiled
// outside. It runs as a child of PID 1 in PID, mount and IPC namespaces of its own, where all file systems are
// read-only but for a temporary directory, and its memory is bounded. Where such namespaces cannot be had, mutate
// refuses to run. A mutant can still reach the network, and the device files if it runs as root. A test that writes
// outside of os.TempDir() does not work here.
//
// The exit status is 0 if at least -min percent were noticed, 1 if fewer were, and 2 if the question could not be
// answered.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	n        int
	seed     uint64
	parallel int
	timeout  time.Duration // of the tests of one mutant, without compiling
	run      string
	min      float64 // percent
}

// errSurvivors says that fewer mutants were killed than -min wants.
var errSurvivors = errors.New("too many mutants survived")

// insideArg, as the first argument, says that this process is PID 1 of a mutant's namespaces.
const insideArg = "mutate-inside"

func main() {
	if len(os.Args) > 1 && os.Args[1] == insideArg {
		os.Exit(inside(os.Args[2:]))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process; it gives the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: go run ./internal/tools/mutate [flags] PACKAGE...   (such as ./loop/effects; see go doc ./internal/tools/mutate)")
		flags.PrintDefaults()
	}
	flags.IntVar(&o.n, "n", 100, "how many mutants to run")
	flags.Uint64Var(&o.seed, "seed", 1, "which mutants are drawn: the same seed draws the same ones")
	flags.IntVar(&o.parallel, "p", 2, "how many mutants run at the same time")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "how long the tests of one mutant may take; a mutant that takes longer is noticed")
	flags.StringVar(&o.run, "run", "", "run only the tests that match, as in go test -run")
	flags.Float64Var(&o.min, "min", 85, "how many percent must be noticed")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() == 0 || o.n < 1 || o.parallel < 1 || o.timeout <= 0:
		flags.Usage()
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := mutate(ctx, o, flags.Args(), stdout)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "mutate:", err)
	if errors.Is(err, errSurvivors) {
		return 1
	}
	return 2
}

func mutate(ctx context.Context, o options, packages []string, out io.Writer) error {
	box, err := newSandbox(ctx)
	if err != nil {
		return fmt.Errorf(`isolating mutants: %w
A mutant may kill, write and delete whatever it can reach, so it runs only in namespaces of its own. This needs Linux 5.12, and either
root with CAP_SYS_ADMIN (in a container: --privileged), or user namespaces (sysctl kernel.unprivileged_userns_clone=1, and on Ubuntu
kernel.apparmor_restrict_unprivileged_userns=0). There is no way around it`, err)
	}
	pkgs, err := load(ctx, ".", packages)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return fmt.Errorf("making a directory for mutants: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	r := &runner{options: o, sandbox: box, work: work, out: out}
	for _, p := range pkgs {
		if err := r.baseline(ctx, p); err != nil {
			return err
		}
	}
	sum, err := r.all(ctx, newDraw(pkgs, o.seed))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d mutants, %d killed (%.0f %%), %d of them by the time limit\n", sum.total, sum.killed, sum.percent(), sum.timeouts)
	if sum.percent() < o.min {
		return fmt.Errorf("%w: %.1f %% were noticed, -min wants %.1f %%", errSurvivors, sum.percent(), o.min)
	}
	return nil
}
