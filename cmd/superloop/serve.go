package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/api"
	"github.com/superloop/superloop/server/backlog"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/slots"
)

// beginPatience bounds how long serve --detach waits for the daemon to hold its lock, and endPatience how long serve --stop
// waits for it to be gone.
const (
	beginPatience = 30 * time.Second
	endPatience   = 30 * time.Second
)

// serve runs the daemon of this user, or begins, installs or ends it.
func (a *app) serve(c *cli.Context) error {
	state, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	if err != nil {
		return err
	}
	limits := slots.Limits{Loops: c.Int("max-parallel-loops"), Roles: c.Int("max-parallel-roles"), PerAccount: c.Int("max-roles-per-account")}
	if min(limits.Loops, limits.Roles, limits.PerAccount) < 0 {
		return failf(exitUsage, "superloop serve --help", "a number of places is not negative; 0 is no bound")
	}
	keep, err := keepLimits(c)
	if err != nil {
		return err
	}
	if err := a.checkListen(c, state); err != nil {
		return err
	}
	switch {
	case c.Bool("stop"):
		return a.endDaemon(c, state)
	case c.Bool("install"):
		return a.installDaemon(c, state, limits)
	case c.Bool("detach"):
		return a.detachDaemon(c, state)
	}
	if by, alive := server.Daemon(state); alive && c.Bool("replace") {
		if err := proc.Signal(by.Identity, syscall.SIGUSR1); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return failf(exitFailed, "superloop serve --stop", "telling the daemon (%s) that it is replaced: %w", by, err)
		}
		fmt.Fprintf(a.stderr, "waiting until the daemon (%s) has ended what it runs, for %s at most\n", by, c.Duration("drain"))
		if err := a.awaitDaemon(c.Context, state, false, c.Duration("drain")+endPatience, nil); err != nil {
			return err
		}
	}
	if a.env("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(50)) // as for run
	}
	drain := make(chan struct{})
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, syscall.SIGUSR1)
	defer signal.Stop(usr1)
	go func() {
		select {
		case <-usr1:
			close(drain)
		case <-c.Context.Done():
		}
	}()
	if own, err := a.ownLog(state); err != nil {
		return err
	} else if own != nil {
		defer func() { _ = own.Close() }() // each line is written at once
		a.stderr = own
	}
	log := a.daemonLog(c.Bool("verbose"))
	desks := &desks{app: a, log: log, of: map[string]*sharedDesk{}}
	var open []net.Listener
	err = server.Run(c.Context, server.Options{State: state, Disk: a.disk, Limits: limits, Keep: keep, Prepare: func(e registry.Entry) (local.Options, func(), error) {
		return a.prepare(c, e, desks)
	}, Plan: func(ctx context.Context, w backlog.Watch, it backlog.Item) (func() error, error) {
		return a.planQueued(ctx, it, w.By, true)
	}, Tasks: func(ctx context.Context, vacant func() int) {
		a.taskDesk(state, log, vacant).Run(ctx)
	}, Drain: drain, DrainTime: c.Duration("drain"), Hurry: a.hurry, Log: log, Begin: func() (err error) {
		open, err = a.listen(c, state)
		return err
	}, Ready: func() {
		log.Info("the daemon is ready", zap.Int("pid", os.Getpid()), zap.String("version", thisBuild().Version), zap.Any("limits", limits))
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady) // an error means that nobody listens
	}, Answer: func(ctx context.Context) {
		go watchdog(ctx)
		a.serveAPI(ctx, state, api.Keep{Days: c.Int("keep-days"), GiB: c.Int("keep-gib")}, open, log)
	}})
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	if held, ok := errors.AsType[*server.HeldError](err); ok {
		return failf(exitHeld, "superloop list --all   (superloop serve --stop ends it, --replace takes its place)", "%w", held)
	}
	log.Info("the daemon has ended", zap.Error(err))
	return err
}

// serveAPI answers programs until ctx ends: over the socket, and at the addresses that are open. Without it the daemon goes
// on: each verb reads the files.
func (a *app) serveAPI(ctx context.Context, state string, keep api.Keep, open []net.Listener, log *zap.Logger) {
	file := api.SocketFile(state)
	options := a.apiOptions(state, keep, log)
	for _, l := range open {
		if at, ok := l.Addr().(*net.TCPAddr); ok {
			options.Port = at.Port
		}
	}
	h, err := api.New(options)
	if err == nil {
		var l net.Listener
		if l, err = api.Listen(a.disk, file); err == nil {
			open = append(open, l)
		}
	}
	if err != nil {
		log.Error("programs are not answered", zap.String("socket", file), zap.Error(err))
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, l := range open {
		if h == nil {
			_ = l.Close() // nobody is kept waiting
			continue
		}
		running.Go(func() {
			log.Info("programs are answered", zap.Stringer("at", l.Addr()))
			if err := api.Serve(ctx, l, h); err != nil {
				log.Error("programs are not answered any more", zap.Stringer("at", l.Addr()), zap.Error(err))
			}
		})
	}
}

// watchdog tells systemd that the daemon lives, if systemd wants to know.
func watchdog(ctx context.Context) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every <= 0 {
		return
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		}
	}
}

// ownLog returns the log file, if stderr is that file, as detachDaemon makes it: from then on the daemon sets it aside
// itself. nil: somebody else keeps what the daemon says.
func (a *app) ownLog(state string) (*durable.Log, error) {
	f, is := a.stderr.(*os.File)
	if !is {
		return nil, nil
	}
	mine, err := f.Stat()
	at, err2 := os.Lstat(logFile(state))
	if err != nil || err2 != nil || !os.SameFile(mine, at) {
		return nil, nil
	}
	return a.disk.GrowLog(logFile(state), func(now *os.File) {
		_ = debug.SetCrashOutput(now, debug.CrashOptions{}) // else a crash is told in the file of the start
	})
}

// daemonLog is the log of the daemon: what it does with which loop, as JSON lines on stderr.
func (a *app) daemonLog(verbose bool) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	level := zapcore.InfoLevel
	if verbose {
		level = zapcore.DebugLevel
	}
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(zapcore.AddSync(a.stderr)), level))
}

// prepare makes the options with which the daemon runs a loop: those of run.
func (a *app) prepare(c *cli.Context, e registry.Entry, desks *desks) (local.Options, func(), error) {
	if _, err := os.Stat(e.Repo); err != nil {
		return local.Options{}, nil, fmt.Errorf("the repository is gone: %w", err)
	}
	cfg, err := a.loopOf(e.Repo, e.Loop)
	if err != nil {
		return local.Options{}, nil, err
	}
	desk, release := desks.take(e.Repo)
	o := a.options(c, e.Repo, cfg, e.Loop)
	o.By, o.Channels, o.Environ, o.Log, o.ExitOnEscalation = e.By, desk.channels, without(append(cfg.SecretNames(), a.trackerTokens(e.Repo)...)), desks.log, false
	return o, release, nil
}

// desks holds a clickDesk for each repository of which the daemon runs loops.
type desks struct {
	app *app
	log *zap.Logger
	mu  sync.Mutex
	of  map[string]*sharedDesk
}

type sharedDesk struct {
	*clickDesk
	users int
}

// take returns the desk of a repository, and a function that releases it.
func (d *desks) take(repo string) (*clickDesk, func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.of[repo]
	if s == nil {
		s = &sharedDesk{clickDesk: &clickDesk{app: d.app, repo: repo, log: d.log}}
		d.of[repo] = s
	}
	s.users++
	return s.clickDesk, sync.OnceFunc(func() {
		d.mu.Lock()
		s.users--
		last := s.users == 0
		if last {
			delete(d.of, repo)
		}
		d.mu.Unlock()
		if last {
			s.close()
		}
	})
}

// logFile is where a detached daemon writes its log.
func logFile(state string) string { return filepath.Join(state, "daemon", "log") }

// detachDaemon starts the daemon as a process of its own, and returns when it holds its lock.
func (a *app) detachDaemon(c *cli.Context, state string) error {
	if by, alive := server.Daemon(state); alive && !c.Bool("replace") {
		return failf(exitHeld, "superloop list --all   (superloop serve --stop ends it, --replace takes its place)", "%w", &server.HeldError{Holder: by})
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := []string{self, "serve"}
	for _, flag := range []string{"max-parallel-loops", "max-parallel-roles", "max-roles-per-account", "keep-days", "keep-gib", "drain"} {
		argv = append(argv, fmt.Sprintf("--%s=%v", flag, c.Value(flag)))
	}
	if c.IsSet("listen") {
		argv = append(argv, "--listen="+c.String("listen"))
	}
	if c.Bool("replace") {
		argv = append(argv, "--replace")
	}
	if err := a.disk.MkdirAll("daemon", filepath.Dir(logFile(state)), 0o700); err != nil {
		return err
	}
	log, err := a.disk.OpenLog(logFile(state))
	if err != nil {
		return err
	}
	defer log.Close()
	old, _ := server.Daemon(state)
	pid, ended, err := proc.Detach(argv, os.Environ(), log)
	if err != nil {
		return err
	}
	patience := beginPatience
	if c.Bool("replace") {
		patience += c.Duration("drain")
	}
	err = a.awaitDaemon(c.Context, state, true, patience, func(now local.Holder) (bool, error) {
		select {
		case err := <-ended:
			return false, failf(exitFailed, "tail "+logFile(state), "the daemon ended at once: %v", err)
		default:
			return now.PID == pid && now.PID != old.PID, nil
		}
	})
	if err != nil {
		return err
	}
	return a.told(c, map[string]any{"pid": pid, "log": logFile(state)}, "the daemon runs (pid %d), its log is %s\nnext: superloop start --loop ID   (in a repository; superloop list --all shows all loops)\n", pid, logFile(state))
}

// endDaemon ends the daemon. Its loops are resumed when the next daemon starts.
func (a *app) endDaemon(c *cli.Context, state string) error {
	by, alive := server.Daemon(state)
	if !alive {
		return failf(exitNothing, "superloop serve --detach", "no daemon runs")
	}
	if err := proc.Signal(by.Identity, syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending the daemon (%s): %w", by, err)
	}
	if err := a.awaitDaemon(c.Context, state, false, endPatience, nil); err != nil {
		return err
	}
	return a.told(c, by, "the daemon (pid %d) has ended; its loops are kept\nnext: superloop serve --detach   (goes on with them)\n", by.PID)
}

// awaitDaemon waits until a daemon is there, or gone. A daemon that is there has to satisfy right, if it is not nil.
func (a *app) awaitDaemon(ctx context.Context, state string, there bool, patience time.Duration, right func(local.Holder) (bool, error)) error {
	life, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var by local.Holder
	err := every(life, func() (ok bool, err error) {
		var alive bool
		if by, alive = server.Daemon(state); alive != there || right == nil {
			return alive == there, nil
		}
		return right(by)
	})
	switch {
	case err == nil || life.Err() == nil:
		return err
	case ctx.Err() != nil:
		return interrupted(ctx)
	}
	return failf(exitFailed, "tail "+logFile(state), "the daemon (%s) did not do so within %s", by, patience)
}
