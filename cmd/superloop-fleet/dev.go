package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/urfave/cli/v2"
	enumspb "go.temporal.io/api/enums/v1"
	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/temporal"
)

// settings are those of the try-out server with which a step takes some 10 ms and not 100: by default a shard hands on 20
// tasks a second, and a queue has four partitions.
var settings = []string{"history.transferProcessorMaxPollRPS=2000", "history.timerProcessorMaxPollRPS=2000", "history.visibilityProcessorMaxPollRPS=2000",
	"matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1"}

// dev runs Temporal's own development server.
func (a *app) dev(c *cli.Context) error {
	program, err := proc.LookPath("temporal", os.Environ())
	if err != nil {
		return fmt.Errorf("%w (type: go install github.com/temporalio/cli/cmd/temporal@v1.5.1, which takes some minutes)", err)
	}
	argv := []string{program, "server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(c.Int("port")), "--headless", "--log-level", "error"}
	if db := c.String("db"); db != "" {
		argv = append(argv, "--db-filename", db)
	}
	for _, s := range settings {
		argv = append(argv, "--dynamic-config-value", s)
	}
	for name, kind := range temporal.Attributes() {
		argv = append(argv, "--search-attribute", name+"="+kind)
	}
	child, err := proc.Converse(argv, os.Environ(), os.Stderr)
	if err != nil {
		return fmt.Errorf("starting %s: %w", program, err)
	}
	go func() { _, _ = io.Copy(a.stderr, child.From) }()
	select {
	case err := <-child.Ended:
		return fmt.Errorf("the server has ended: %w", err)
	case <-c.Context.Done():
		if err := child.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		a.log().Info("the server has ended", zap.NamedError("how", <-child.Ended))
		return nil
	}
}

// doctor checks what a loop of the fleet needs.
func (a *app) doctor(c *cli.Context) error {
	f, to, err := a.open()
	if err != nil {
		return err
	}
	defer to.Close()
	fmt.Fprintf(a.stdout, "ok    the server answers\n")
	bad := false
	for _, q := range []struct{ queue, what, next string }{
		{temporal.ControlQueue, "a control worker", "superloop-fleet control"}, {temporal.HostQueue(f.Machine), "a worker of this machine (" + f.Machine + ")", "superloop-fleet worker"}} {
		kind := enumspb.TASK_QUEUE_TYPE_ACTIVITY
		if q.queue == temporal.ControlQueue {
			kind = enumspb.TASK_QUEUE_TYPE_WORKFLOW
		}
		alive, err := temporal.Polled(c.Context, to, q.queue, kind)
		if err != nil {
			return err
		}
		if alive {
			fmt.Fprintf(a.stdout, "ok    %s polls\n", q.what)
		} else {
			bad = true
			fmt.Fprintf(a.stdout, "wrong %s does not poll; loops wait for it (type: %s)\n", q.what, q.next)
		}
	}
	if temporal.HasAttributes(c.Context, to, to.namespace) {
		fmt.Fprintf(a.stdout, "ok    the server knows the search attributes of loops\n")
	} else {
		fmt.Fprintf(a.stdout, "note  the server does not know the search attributes of loops, so its own lists do not show them (docs/fleet.md)\n")
	}
	if bad {
		return fmt.Errorf("the fleet cannot run loops here")
	}
	return nil
}
