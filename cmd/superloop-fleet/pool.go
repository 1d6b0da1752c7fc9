package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/worker"
	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/carry"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/temporal"
)

// remoteOf returns the address of a repository as other directories know it.
func remoteOf(remote string) (string, error) {
	if strings.Contains(remote, ":") || filepath.IsAbs(remote) {
		return remote, nil
	}
	return filepath.Abs(remote)
}

// keysOf returns the keys with which machines authenticate what they hand on: they are made of those of the payloads, and the
// first one is that with which is written.
func keysOf(f fleet) (keys [][]byte) {
	ids := slices.Sorted(maps.Keys(f.Payloads.All))
	slices.SortStableFunc(ids, func(a, b string) int { return rank(b == f.Payloads.Write) - rank(a == f.Payloads.Write) })
	for _, id := range ids {
		sum := sha256.Sum256(append([]byte("superloop carry\n"), f.Payloads.All[id]...))
		keys = append(keys, sum[:])
	}
	return keys
}

func rank(first bool) int {
	if first {
		return 1
	}
	return 0
}

// unbind puts a loop of this clone on its remote and signs that the machines of a pool may run it.
func (a *app) unbind(c *cli.Context, f fleet, to *server, args temporal.Args) (temporal.Args, error) {
	if f.Gateway == nil {
		return args, errors.New("this machine only works: it has no key to sign the start of an unbound loop with; start it on the machine on which superloop-fleet init was called without --join")
	}
	if c.String("remote") == "" {
		return args, errors.New("an unbound loop needs a repository that its machines fetch from and push to (--remote URL)")
	}
	remote, err := remoteOf(c.String("remote"))
	if err != nil {
		return args, err
	}
	cfg, err := config.Load(filepath.Join(args.Repo, ".superloop", "config.json"))
	if err != nil {
		return args, err
	}
	l, ok := cfg.Loop(args.Loop)
	switch {
	case !ok:
		return args, fmt.Errorf("there is no loop %q in %s", args.Loop, cfg.Path)
	case l.Git.Worktree:
		return args, fmt.Errorf("loop %s has git.worktree, and an unbound loop has a work tree of its own on each machine anyway; leave that key out of %s", args.Loop, text.Paste(cfg.Path))
	}
	s := temporal.Start{Workflow: temporal.PoolWorkflowID(f.Fleet, remote, args.Loop), Remote: remote, Loop: args.Loop, Pool: c.String("pool"), Digest: cfg.Digest, By: args.By, At: time.Now().UTC()}
	if s, err = s.Sign(ed25519.PrivateKey(f.Gateway)); err != nil {
		return args, err
	}
	// What a machine that runs the loop now has would be lost to it.
	d, err := to.DescribeWorkflow(c.Context, s.Workflow, "")
	if _, none := errors.AsType[*serviceerror.NotFound](err); err != nil && !none {
		return args, fmt.Errorf("asking for the loop: %w", err)
	}
	if err == nil && d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return args, fmt.Errorf("the loop runs already (type: superloop-fleet show --remote %s --loop %s)", text.Paste(remote), args.Loop)
	}
	o := carry.Options{StateHome: a.env("XDG_STATE_HOME"), Environ: os.Environ(), Disk: a.disk, Log: a.log(), Now: time.Now}
	claim := host.Claim{Workflow: s.Workflow, Remote: remote, Loop: args.Loop, Grant: s.Grant(), Digest: s.Digest, By: args.By, Machine: f.Machine, Keys: keysOf(f)}
	if err := carry.Offer(c.Context, args.Repo, claim, args.Fresh, o); err != nil {
		return args, err
	}
	args.Start, args.Machine, args.Repo, args.GoneAfter = &s, "", "", c.Duration("machine-gone-after")
	return args, nil
}

// joins completes what the machine knows of the pools of which it takes loops.
func (a *app) joins(c *cli.Context, f fleet, m *temporal.Machine) {
	for pool := range strings.SplitSeq(c.String("pool"), ",") {
		if pool = strings.TrimSpace(pool); pool != "" {
			m.Pools = append(m.Pools, pool)
		}
	}
	m.Slots, m.Keys = c.Int("slots"), keysOf(f)
	m.Carried = func(p host.Place) string { return carry.WorkflowOf(p.Repo, a.env("XDG_STATE_HOME")) }
}

// present is what a machine says of itself in each poll.
type present struct {
	Machine string   `json:"machine"`
	Host    string   `json:"host"`
	Pools   []string `json:"pools,omitempty"`
	Slots   int      `json:"slots"`
	Drains  bool     `json:"drains,omitempty"`
}

// pools takes loops of pools until leave is called, and drains when that is ordered.
func (a *app) pools(c *cli.Context, to *server, f fleet, m *temporal.Machine, log *zap.Logger) (leave func()) {
	p := &pooled{a: a, c: c, to: to, f: f, m: m, log: log}
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		p.run(done)
	}()
	return sync.OnceFunc(func() {
		close(done)
		<-over
	})
}

// pooled is the part of a worker that takes loops of pools.
type pooled struct {
	a       *app
	c       *cli.Context
	to      *server
	f       fleet
	m       *temporal.Machine
	log     *zap.Logger
	workers []worker.Worker
}

// run takes loops, and looks each second whether the machine is to drain: an order is a file, so it holds for the next worker,
// too.
func (p *pooled) run(done <-chan struct{}) {
	defer p.stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var was *drainOrder
	began, interrupted := false, false
	for {
		now, err := p.a.drains()
		if err != nil {
			p.log.Warn("whether this machine is to drain is unknown", zap.Error(err))
			now = was
		}
		if !began || (now == nil) != (was == nil) {
			began, interrupted = true, false
			p.stop()
			p.m.Drain(now != nil)
			p.start(now != nil)
			if now != nil {
				p.log.Info("the machine drains", zap.String("by", now.By), zap.Time("deadline", now.Deadline))
			}
			p.a.stirAll(p.c.Context, p.to, p.f, p.log) // what waits here goes to another machine, or on
		}
		if was = now; now != nil && !interrupted && time.Now().After(now.Deadline) {
			interrupted = true
			p.m.Interrupt()
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

func (p *pooled) start(drains bool) {
	name, _ := os.Hostname()
	says, _ := json.Marshal(present{p.f.Machine, name, p.m.Pools, p.m.Slots, drains}) // strings and numbers
	all := []worker.Worker{temporal.Present(p.to.Client, string(says), worker.Options{})}
	for _, pool := range p.m.Pools {
		if !drains {
			all = append(all, p.m.PoolWorker(p.to.Client, pool, worker.Options{}))
		}
	}
	for _, w := range all {
		if err := w.Start(); err != nil {
			p.log.Error("a worker of a pool does not begin", zap.Error(err))
			continue
		}
		p.workers = append(p.workers, w)
	}
}

func (p *pooled) stop() {
	for _, w := range p.workers {
		w.Stop()
	}
	p.workers = nil
}
