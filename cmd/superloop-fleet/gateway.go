package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/temporal"
	"github.com/superloop/superloop/server/api"
	"github.com/superloop/superloop/server/gateway"
	"github.com/superloop/superloop/server/gateway/link"
)

// secrets are what members of the fleet know, the one that is used now first.
func (f fleet) secrets() [][]byte {
	out := [][]byte{f.Payloads.All[f.Payloads.Write]}
	for id, key := range f.Payloads.All {
		if id != f.Payloads.Write {
			out = append(out, key)
		}
	}
	return out
}

// toGateway returns what the process that carries out loops has to know to answer a gateway, and what holds the connection
// with it until its context ends.
func (a *app) toGateway(c *cli.Context, f fleet, log *zap.Logger) (argv []string, join func(context.Context) error, err error) {
	none := func(context.Context) error { return nil }
	if !c.IsSet("gateway") {
		return nil, none, nil
	}
	at, err := link.Address(c.String("gateway"))
	if err != nil {
		return nil, none, fmt.Errorf("--gateway: %w", err)
	}
	if len(f.Key) != ed25519.PrivateKeySize {
		return nil, none, errors.New("this machine has no key of its own; let it join the fleet anew (superloop-fleet init --join)")
	}
	state, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	if err != nil {
		return nil, none, err
	}
	argv = []string{"--machine=" + f.Machine}
	for _, key := range f.Gateways {
		argv = append(argv, "--gateway="+base64.StdEncoding.EncodeToString(key))
	}
	member := link.Member{Key: f.Key, Secret: f.secrets()[0], Gateways: f.Gateways}
	return argv, func(ctx context.Context) error {
		return member.Join(ctx, at, func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", api.SocketFile(layout.HostState(state)))
		}, log)
	}, nil
}

// fulfil begins the loops, or goes on with those, that people want who have asked this machine.
func fulfil(ctx context.Context, to *server, m *temporal.Machine, loops *host.Client, log *zap.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-loops.Gone():
			return
		case w := <-loops.Wishes():
			id := m.WorkflowOf(w.Place)
			_, err := to.SignalWithStartWorkflow(ctx, id, temporal.ResumeSignal, nil, client.StartWorkflowOptions{ID: id, TaskQueue: temporal.ControlQueue,
				WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, Memo: map[string]any{"machine": m.ID}, StaticSummary: "loop " + w.Loop},
				temporal.WorkflowName, temporal.Args{Place: w.Place, Machine: m.ID, By: w.By, Fresh: w.Fresh, Gateways: m.Gateways, Attributes: temporal.HasAttributes(ctx, to, to.namespace)})
			if err != nil {
				log.Error("a loop is not begun that somebody wants to run", zap.String("repo", w.Repo), zap.String("loop", w.Loop), zap.String("by", w.By), zap.Error(err))
			}
		}
	}
}

// gateway answers for all machines of the fleet until it is told to end.
func (a *app) gateway(c *cli.Context) error {
	log := a.log()
	f, err := a.load()
	if err != nil {
		return err
	}
	if f.Gateway == nil {
		return errors.New("this machine only works: the gateway runs on the machine on which superloop-fleet init was called without --join")
	}
	state, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	if err != nil {
		return err
	}
	state = layout.GatewayState(state)
	if by, taken := a.gatewayAnswers(c.Context, state); taken {
		return fmt.Errorf("a gateway runs already, at port %d (type: superloop-fleet ui)", by)
	}
	at, err := api.ParseAddress(c.String("listen"))
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	c2, err := link.ForGateway(f.Gateway, f.secrets())
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Options{State: state, Disk: a.disk, Key: f.Gateway, Log: log})
	if err != nil {
		return err
	}
	open, err := api.ListenTCP(c.Context, at)
	if err != nil {
		return err
	}
	port := open[0].Addr().(*net.TCPAddr).Port
	h, err := api.New(api.Options{State: state, Disk: a.disk, Version: version(), Port: port, Over: g, Log: log})
	if err == nil {
		err = api.KeepPort(a.disk, state, open[0])
	}
	if err != nil {
		return err
	}
	sock, err := api.Listen(a.disk, api.SocketFile(state))
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	machines, err := lc.Listen(c.Context, "tcp", c.String("machines"))
	if err != nil {
		return fmt.Errorf("--machines: %w", err)
	}
	log.Info("the gateway is ready", zap.Int("port", port), zap.Stringer("machines", machines.Addr()))
	ctx, stop := context.WithCancelCause(c.Context)
	defer stop(nil)
	var running sync.WaitGroup
	for _, l := range append(open, sock) {
		running.Go(func() { stop(api.Serve(ctx, l, h)) })
	}
	running.Go(func() { stop(g.Meet(ctx, machines, c2)) })
	running.Wait()
	log.Info("the gateway has ended")
	if err := context.Cause(ctx); c.Context.Err() == nil {
		return err
	}
	return nil
}

// gatewayAnswers reports whether a gateway answers at the socket, and its port.
func (a *app) gatewayAnswers(ctx context.Context, state string) (port int, ok bool) {
	if err := api.Call(ctx, state, http.MethodGet, "/healthz", nil, nil); err != nil {
		return 0, false
	}
	said, err := door.Read(layout.DaemonPortFile(state), 100)
	if err == nil {
		port, err = strconv.Atoi(strings.TrimSpace(string(said)))
	}
	return port, err == nil
}

// ui prints the address of the page with a code that opens one session.
func (a *app) ui(c *cli.Context) error {
	state, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	if err != nil {
		return err
	}
	state = layout.GatewayState(state)
	var code api.Code
	err = api.Call(c.Context, state, http.MethodPost, "/api/v1/codes", nil, &code)
	if errors.Is(err, api.ErrNoDaemon) {
		return errors.New("no gateway runs on this machine (type: superloop-fleet gateway)")
	}
	if p, is := errors.AsType[*api.Problem](err); is {
		return errors.New(p.Detail)
	}
	if err != nil {
		return err
	}
	port, _ := a.gatewayAnswers(c.Context, state) // it has just answered
	_, err = fmt.Fprintf(a.stdout, "http://superloop.localhost:%d/#code=%s\n", port, code.Code)
	return err
}

// version is that of the program.
func version() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "devel"
}
