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
	packages []string
}

// errSurvivors says that fewer mutants were killed than -min wants.
var errSurvivors = errors.New("too many mutants survived")

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
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	o.packages = flags.Args()
	if len(o.packages) == 0 || o.n < 1 || o.parallel < 1 || o.timeout <= 0 {
		flags.Usage()
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := mutate(ctx, o, stdout)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errSurvivors):
		fmt.Fprintln(stderr, "mutate:", err)
		return 1
	}
	fmt.Fprintln(stderr, "mutate:", err)
	return 2
}

func mutate(ctx context.Context, o options, out io.Writer) error {
	box, err := newSandbox(ctx)
	if err != nil {
		return fmt.Errorf(`isolating mutants: %w
A mutant may kill, write and delete whatever it can reach, so it runs only in namespaces of its own. This needs Linux 5.12, and either
root with CAP_SYS_ADMIN (in a container: --privileged), or user namespaces (sysctl kernel.unprivileged_userns_clone=1, and on Ubuntu
kernel.apparmor_restrict_unprivileged_userns=0). There is no way around it`, err)
	}
	pkgs, err := load(ctx, ".", o.packages)
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
