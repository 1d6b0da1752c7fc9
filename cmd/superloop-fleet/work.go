package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/temporal"
	"github.com/superloop/superloop/roles/agent"
)

// stopTime is how long a worker waits for what it runs when it ends. Loops pause much faster.
const stopTime = 20 * time.Second

// slotTime is how long a worker that ends has to tell the fleet which slots of accounts its roles have left.
const slotTime = 2 * time.Second

// await connects with the server of the fleet, as soon as there is one.
func (a *app) await(ctx context.Context, log *zap.Logger) (fleet, *server, error) {
	f, err := a.load()
	if err != nil {
		return f, nil, err
	}
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		to, err := a.dial(f)
		if err == nil {
			return f, to, nil
		}
		log.Warn("the fleet cannot be reached yet", zap.Error(err), zap.Duration("again_in", pause))
		select {
		case <-ctx.Done():
			return f, nil, err
		case <-time.After(pause):
		}
	}
}

// control runs workflows until it is told to end.
func (a *app) control(c *cli.Context) error {
	log := a.log()
	f, to, err := a.await(c.Context, log)
	if err != nil {
		return err
	}
	defer to.Close()
	build := worker.WorkerDeploymentVersion{DeploymentName: "superloop-" + f.Fleet, BuildID: c.String("build")}
	o := worker.Options{}
	if build.BuildID != "" {
		o.DeploymentOptions = worker.DeploymentOptions{UseVersioning: true, Version: build}
	}
	w := temporal.Control(to.Client, o)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	if build.BuildID != "" {
		if err := newest(c.Context, to, build); err != nil {
			return err
		}
	}
	log.Info("the control worker is ready", zap.String("build", build.BuildID))
	<-c.Context.Done()
	return nil
}

// newest has new loops begin with a build. The server knows the build a moment after its worker has begun.
func newest(ctx context.Context, to *server, build worker.WorkerDeploymentVersion) error {
	limited, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for {
		_, err := to.WorkerDeploymentClient().GetHandle(build.DeploymentName).SetCurrentVersion(limited, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build.BuildID, IgnoreMissingTaskQueues: true})
		if err == nil {
			return nil
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("new loops cannot begin with the build %s (without --build the server needs to know no builds): %w", build.BuildID, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// worker carries out the loops of this machine until it is told to end. It answers the gateway also while no server can be
// reached.
func (a *app) worker(c *cli.Context) error {
	if c.Int("slots") < 1 || c.Int("max-roles-per-account") < 0 || c.Duration("beat-timeout") < time.Second {
		return errors.New("--slots is 1 or more, --max-roles-per-account 0 (no bound) or more, and --beat-timeout a second or more (type: superloop-fleet worker --help)")
	}
	log := a.log()
	f, err := a.load()
	if err != nil {
		return err
	}
	program, err := proc.LookPath(c.String("superloop"), os.Environ())
	if err != nil {
		return fmt.Errorf("the program that carries out loops: %w (--superloop names another)", err)
	}
	argv, join, err := a.toGateway(c, f, log)
	if err != nil {
		return err
	}
	child, err := proc.Converse(append([]string{program, "__host"}, argv...), os.Environ(), os.Stderr)
	if err != nil {
		return fmt.Errorf("starting %s: %w", program, err)
	}
	m := &temporal.Machine{Gateways: f.Gateways, Fleet: f.Fleet, ID: f.Machine, Now: time.Now}
	room := newPlaces(c.Int("slots"))
	tuner, err := room.tuner()
	if err != nil {
		return err
	}
	shares := &slots{most: c.Int("max-roles-per-account"), places: room, beat: c.Duration("beat-timeout"), machine: f.Machine, workflow: m.WorkflowOf, log: log, roles: map[string]*role{}}
	stirred := make(chan host.Place, maxStirred)
	loops := host.NewClient(child.To, child.From, func(p host.Place) {
		select {
		case stirred <- p:
		default: // it is looked at when its time has come
		}
	}, shares.hears())
	ctx, leave := context.WithCancel(c.Context)
	left := make(chan error, 1)
	go func() { left <- join(ctx) }()
	defer func() {
		leave()
		if err := <-left; err != nil {
			log.Error("the gateway was not reached", zap.Error(err))
		}
	}()
	go func() {
		select {
		case <-loops.Gone():
			leave()
		case <-ctx.Done():
		}
	}()
	_, to, err := a.await(ctx, log)
	if err != nil {
		_ = loops.Close()
		return errors.Join(gone(c.Context), <-child.Ended)
	}
	defer to.Close()
	limits, err := a.limits(ctx, to, f, log)
	if err != nil {
		_ = loops.Close()
		return err
	}
	m.Host, m.Limits, m.Slot, m.Work = loops, limits.take, shares.has, room.work
	a.joins(c, f, m)
	shares.serve(ctx, loops.Grant, func(ctx context.Context, a agent.Account, w temporal.Want) error {
		return temporal.AskSlot(ctx, to.Client, f.Fleet, a, w)
	})
	orders := m.OrdersWorker(to.Client, func(x temporal.Decision) error { return a.putDrain(x, time.Now()) }, worker.Options{WorkerStopTimeout: slotTime})
	if err := orders.Start(); err != nil {
		_ = loops.Close()
		return err
	}
	defer orders.Stop() // when the roles have left their slots
	w := m.Worker(to.Client, worker.Options{WorkerStopTimeout: stopTime, Tuner: tuner})
	if err := w.Start(); err != nil {
		_ = loops.Close()
		return err
	}
	log.Info("the worker is ready", zap.String("machine", f.Machine))
	a.stirAll(ctx, to, f, log)
	go stir(ctx, to, m, stirred, log)
	go fulfil(ctx, to, m, loops, log)
	go limits.tell(ctx)
	rest := a.pools(c, to, f, m, log)
	defer rest()
	select {
	case <-c.Context.Done():
		rest() // before the unbound loops of this machine look for another one
		w.Stop()
		_ = loops.Close()
		ended := <-child.Ended
		<-loops.Gone() // all that it has said is heard
		shares.leaving.Wait()
		log.Info("the worker has ended", zap.NamedError("loops", ended))
		return nil
	case <-loops.Gone():
		err := errors.Join(host.ErrGone, <-child.Ended)
		w.Stop()
		return err
	}
}

// maxStirred bounds the loops of which the server was not told yet that they have something to do.
const maxStirred = 10000

// gone is nil if the worker was told to end, and else says that what carries out loops has ended.
func gone(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return host.ErrGone
}

// stir tells the workflows of loops that they have something to do.
func stir(ctx context.Context, to *server, m *temporal.Machine, stirred <-chan host.Place, log *zap.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-stirred:
			go func() {
				one, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
				defer stop()
				id := m.WorkflowOf(p)
				if err := to.SignalWorkflow(one, id, "", temporal.StirSignal, nil); err != nil {
					log.Warn("the fleet could not be told that a loop has something to do", zap.String("workflow", id), zap.Error(err))
				}
			}()
		}
	}
}

// stirAll has every loop of this machine looked at: the process that watched the waiting ones is a new one.
func (a *app) stirAll(ctx context.Context, to *server, f fleet, log *zap.Logger) {
	err := each(ctx, to, f, func(r row) error {
		if r.Machine != f.Machine {
			return nil
		}
		return to.SignalWorkflow(ctx, r.Workflow, "", temporal.StirSignal, nil)
	})
	if err != nil {
		log.Warn("the loops that wait here were not all looked at", zap.Error(err))
	}
}
