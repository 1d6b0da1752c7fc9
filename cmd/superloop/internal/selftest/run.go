package selftest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent"
)

// prompt is what the CLI is asked; the mock answers as the case has it.
const prompt = "This is a test of your command line. Do what you think is right.\n"

// lookEvery is how often the process table is looked at during a run.
const lookEvery = 100 * time.Millisecond

// drive runs one case. An error is the test's own.
func (d *driver) drive(ctx context.Context, n int, sc scenario) (seen Seen, err error) {
	dir := filepath.Join(d.Dir, strconv.Itoa(n))
	p := place{work: filepath.Join(dir, "work"), nap: nap(), resetsAt: time.Now().Add(2 * time.Hour)}
	seen.ResetsAt = p.resetsAt
	script := sc.script(p, d.traits)
	server, err := mockapi.Start(func(c mockapi.Call) mockapi.Reply {
		if c.HasToolResult {
			seen.ToolOutput = c.LastToolOutput
		}
		return script(c)
	})
	if err != nil {
		return seen, err
	}
	defer func() { _ = server.Close() }() // twice is harmless
	env, err := d.home(dir, server.URL(), sc.subscription)
	if err != nil {
		return seen, err
	}
	if err := d.repository(ctx, p.work); err != nil {
		return seen, err
	}
	req := d.request(dir, p, "selftest-"+newWord())
	if err := d.Disk.MkdirAll("selftest", req.LoopDir, 0o700); err != nil {
		return seen, err
	}
	if err := d.Disk.WriteFile("selftest", req.PromptPath, []byte(prompt), 0o600); err != nil {
		return seen, err
	}
	seen.Session = req.SessionID
	d.run(ctx, sc, p, req, env, &seen)
	_ = server.Close() // no request is under way any more, so nothing changes what was seen
	seen.Calls = server.Calls()
	text, err := os.ReadFile(p.file())
	if err == nil {
		seen.Written = string(text)
	}
	return seen, nil
}

// run runs the agent under a watch, and looks what is left of it.
func (d *driver) run(ctx context.Context, sc scenario, p place, req agent.Request, env []string, seen *Seen) {
	var log bytes.Buffer
	var said []string // by one goroutine, and Run waits for it
	o := agent.Options{
		Environ: env, Timeout: d.timeout(sc), Inactivity: d.silence(sc), Grace: grace, Hurry: d.Hurry,
		Log: &log, LogLimit: 8 << 20, Redact: agent.Secrets(env, nil),
		WriteFile: func(path, text string) error { return d.Disk.WriteFile("selftest", path, []byte(text), 0o600) },
		Progress:  func(line string) { said = append(said, line) },
	}
	seen.Bound = o.Timeout + grace + 10*time.Second
	if o.Inactivity > 0 {
		seen.Bound = d.traits.Start + o.Inactivity + grace + 10*time.Second
	}
	marker := agent.MarkVariable + "=" + req.RunID
	kill, cancel := context.WithCancel(ctx)
	defer cancel()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		watch(stop, sc, p, marker, cancel, seen)
	}()
	began := time.Now()
	seen.Result, seen.Err = agent.Run(kill, d.Runner, req, o)
	seen.Wall = time.Since(began)
	close(stop)
	<-stopped
	left, ok := leftOf(marker, p.nap, os.Getpid())
	seen.Left, seen.Blind = left, !ok
	if len(left) > 0 {
		proc.Sweep(marker)
	}
	for where, text := range map[string]string{"log": log.String(), "final message": seen.Result.FinalMessage, "error": seen.Result.ErrorText,
		"progress": strings.Join(append(said, seen.Result.LastLine), "\n"), "error of the run": fmt.Sprint(seen.Err)} {
		if strings.Contains(text, mockapi.Key) {
			seen.Leaks = append(seen.Leaks, where)
		}
	}
	slices.Sort(seen.Leaks)
}

// watch looks at the run from outside until stop: is the key among anybody's
// arguments, has the command begun that is to be killed.
func watch(stop <-chan struct{}, sc scenario, p place, marker string, kill func(), seen *Seen) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		list, _ := processes()
		for _, pr := range list {
			if bytes.Contains(pr.args, []byte(mockapi.Key)) && pr.marked(marker) && !slices.Contains(seen.Bare, pr.name) {
				seen.Bare = append(seen.Bare, pr.name)
			}
		}
		if _, err := os.Stat(p.started()); err == nil && sc.kill && !seen.ToolRan {
			seen.ToolRan = true
			kill()
		}
	}
}

// nap is a number of seconds a little above 300 that no other process has among
// its arguments.
func nap() string {
	n, err := rand.Int(rand.Reader, big.NewInt(1e9))
	if err != nil {
		n = big.NewInt(time.Now().UnixNano() % 1e9)
	}
	return fmt.Sprintf("300.%09d", n)
}
