// Package selftest drives an installed agent CLI through superloop's own adapter and process handling against a mock of
// its model API, and judges whether success, tool use, refusals, limits, overload, a hanging provider and a kill are
// distinguished as docs/agents.md promises. It spends no token and opens no connection but to this machine.
//
// A case is driven (drive.go), what was seen of it is a Seen, and judging a Seen is pure (judge.go). The result is a
// Card per CLI.
package selftest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/project"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// Options say which CLI to drive, and with what.
type Options struct {
	CLI, Program string // CLI is one of mockapi.CLIs, Program where it is; absolute
	Path         string // the PATH that it gets
	// Dir is where it works and lives, made by Run and removed at its end. It is absolute and must not exist; a short
	// one suits those CLIs that put sockets there.
	Dir    string
	Disk   durable.Disk
	Runner agent.Runner
	Hurry  <-chan struct{} // as in proc.Spec
	// Silence is the least bound of silence that ends a hanging run; 0: 12 s to 45 s, as long as the CLI may need.
	Silence time.Duration
	Each    func(Case) // is called with every case as soon as it is judged
}

// Run drives one CLI through all cases, one after the other, in two to five minutes at most for a CLI that keeps every
// bound. An error means that the test could not be made, or that ctx ended; the card has what was judged until then.
// Nothing is left on the disk and no process runs on, whatever happens.
func Run(ctx context.Context, o Options) (card Card, err error) {
	card = Card{CLI: o.CLI, Program: o.Program, MissingFlags: []string{}, Cases: []Case{}}
	if err := o.Disk.MkdirAll("selftest", o.Dir, 0o700); err != nil {
		return card, err
	}
	defer func() { // also when ctx has ended
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		if _, rerr := (proc.Tool{}).Run(ctx, "rm", "-rf", "--", o.Dir); rerr != nil && err == nil {
			err = fmt.Errorf("removing the scratch folder: %w", rerr)
		}
	}()
	r := project.RunnerOf(o.CLI) // as init would write it
	r.Command[0] = o.Program
	d := &driver{Options: o, traits: TraitsOf(o.CLI), cli: agent.CLI{Command: r.Command, Args: r.Args, PromptMode: r.PromptMode, Adapter: o.CLI}}
	d.adapter = agent.For(d.cli)
	card.Adapter = d.adapter.Name()
	if err := d.examine(ctx, &card); err != nil {
		return card, err
	}
	for i, sc := range scenarios() {
		seen, err := d.drive(ctx, i+1, sc)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return card, err
		}
		c := judge(sc, seen, d.traits)
		card.Cases = append(card.Cases, c)
		if i == 0 {
			d.usual = seen.Wall
		}
		o.Each(c)
	}
	card.conclude()
	return card, nil
}

// judge is pure.
func judge(sc scenario, seen Seen, t Traits) Case {
	c := Case{Name: sc.name, Status: OK, WallMS: seen.Wall.Milliseconds(), Requests: len(seen.Calls)}
	for _, r := range seen.Calls {
		if r.Side {
			c.Side++
		}
	}
	c.Checks = append(sc.judge(seen, t), tidy(seen)...)
	for _, k := range c.Checks {
		c.Status = worse(c.Status, k.Status)
	}
	return c
}

type driver struct {
	Options
	traits  Traits
	cli     agent.CLI
	adapter agent.Adapter
	usual   time.Duration // how long the first case took
}

// home makes an environment for the CLI whose home is in dir, with a prompt and a work folder beside it.
func (d *driver) home(dir, url, prompt string, subscription bool) ([]string, error) {
	home, tmp := filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	env, files, err := mockapi.Environment(d.CLI, url, home)
	if err != nil {
		return nil, err
	}
	if subscription && d.CLI == "claude" {
		env = mockapi.Subscription(env)
	}
	for _, sub := range []string{home, tmp, filepath.Join(dir, "work"), filepath.Join(dir, "loop")} {
		if err := d.Disk.MkdirAll("selftest", sub, 0o700); err != nil {
			return nil, err
		}
	}
	files["../prompt.md"] = prompt
	for name, text := range files {
		if err := d.write(filepath.Join(home, name), text); err != nil {
			return nil, err
		}
	}
	return append(env, "PATH="+d.Path, "TMPDIR="+tmp, "LANG=C.UTF-8", "TERM=dumb"), nil
}

// write writes a file, in a folder that is made where it is not there.
func (d *driver) write(path, text string) error {
	if err := d.Disk.MkdirAll("selftest", filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return d.Disk.WriteFile("selftest", path, []byte(text), 0o600)
}

func (d *driver) examine(ctx context.Context, card *Card) error {
	dir := filepath.Join(d.Dir, "0")
	env, err := d.home(dir, "http://127.0.0.1:9", "Nothing.\n", false)
	if err != nil {
		return err
	}
	var e preflight.Examiner
	rep := e.Examine(ctx, preflight.Request{Runner: d.CLI, CLI: d.cli, Environ: env, Root: os.Geteuid() == 0, WorkDir: dir, Prompt: filepath.Join(dir, "prompt.md"),
		Turns: []preflight.Turn{{Role: "implementer", Permissions: agent.PermitWorkspace}}})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	card.Version, card.Unchecked = rep.Version, rep.Unchecked
	for _, f := range rep.Flags {
		if f.State == preflight.FlagUnknown {
			card.MissingFlags = append(card.MissingFlags, f.Flag)
		}
	}
	return nil
}

// Scratch is a path for Options.Dir in the folder for temporary files.
func Scratch() string { return filepath.Join(os.TempDir(), "sl-selftest-"+agent.NewSessionID()[:8]) }

// prompt is what the CLI is asked; the mock answers as the case has it.
const prompt = "This is a test of your command line. Do what you think is right.\n"

// drive runs one case. An error is the test's own.
func (d *driver) drive(ctx context.Context, n int, sc scenario) (seen Seen, err error) {
	dir := filepath.Join(d.Dir, strconv.Itoa(n))
	p := place{work: filepath.Join(dir, "work"), nap: fmt.Sprintf("300.%09d", rand.IntN(1e9)), resetsAt: time.Now().Add(2 * time.Hour)}
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
	env, err := d.home(dir, server.URL(), prompt, sc.subscription)
	if err != nil {
		return seen, err
	}
	git := proc.Tool{Dir: p.work, Env: append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")}
	if _, err := git.Run(ctx, "git", "init", "-q", "--template="); err != nil {
		return seen, fmt.Errorf("making a repository for the test: %w", err)
	}
	req := agent.Request{CLI: d.cli, PromptPath: filepath.Join(dir, "prompt.md"), LastMessageFile: filepath.Join(dir, "last-message.md"),
		WorkDir: p.work, Repo: p.work, LoopDir: filepath.Join(dir, "loop"),
		Loop: "selftest", RunID: "selftest-" + strings.ReplaceAll(agent.NewSessionID(), "-", "")[:12], Role: "implementer",
		Iteration: 1, Attempt: 1, Permissions: agent.PermitWorkspace}
	if d.adapter.Profile().ChoosesSession {
		req.SessionID = agent.NewSessionID()
	}
	seen.Session = req.SessionID
	d.run(ctx, sc, p, req, env, &seen)
	_ = server.Close() // no request is under way any more, so nothing changes what was seen
	seen.Calls = server.Calls()
	written, _ := os.ReadFile(p.file()) // none is an empty one
	seen.Written = string(written)
	return seen, nil
}

// run runs the agent under a watch, and looks what is left of it.
func (d *driver) run(ctx context.Context, sc scenario, p place, req agent.Request, env []string, seen *Seen) {
	var log bytes.Buffer
	var said []string // by one goroutine, and Run waits for it
	o := agent.Options{Environ: env, Timeout: d.traits.Start + work, Grace: grace, Hurry: d.Hurry, Log: &log, LogLimit: 8 << 20,
		Redact: agent.Secrets(env, nil), WriteFile: d.write, Progress: func(line string) { said = append(said, line) }}
	begins := min(3*d.usual, d.traits.Start)
	if sc.brief && d.traits.RetriesLong {
		o.Timeout = begins + briefly
	}
	seen.Bound = o.Timeout + grace + 10*time.Second
	if sc.silence > 0 { // so long that the start of the CLI on a busy machine is not taken for a hang
		o.Inactivity = max(begins, cmp.Or(d.Silence, max(sc.silence, d.traits.Start/2)))
		seen.Bound = d.traits.Start + o.Inactivity + grace + 10*time.Second
	}
	marker := agent.MarkVariable + "=" + req.RunID
	kill, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { watch(stop, sc, p, marker, cancel, seen) })
	began := time.Now()
	seen.Result, seen.Err = agent.Run(kill, d.Runner, req, o)
	seen.Wall = time.Since(began)
	close(stop)
	watching.Wait()
	table := processes()
	seen.Blind = len(table) == 0
	for _, pr := range table {
		if pr.pid != strconv.Itoa(os.Getpid()) && (pr.marked(marker) || bytes.Contains(pr.args, []byte(p.nap))) {
			seen.Left = append(seen.Left, pr.name+" ("+pr.pid+")")
		}
	}
	if len(seen.Left) > 0 {
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

// watch looks at the run from outside until stop: is the key an argument, and has the command to be killed begun.
func watch(stop <-chan struct{}, sc scenario, p place, marker string, kill func(), seen *Seen) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for _, pr := range processes() {
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

type process struct {
	pid, name string // name is the last element of its program
	args      []byte // NUL between them
}

// processes are those of this user, or all for root; none where the system has no /proc.
func processes() (list []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		args, err := os.ReadFile(file)
		if err != nil || len(args) == 0 {
			continue // it has gone, or is a zombie or a part of the kernel
		}
		program, _, _ := bytes.Cut(args, []byte{0})
		list = append(list, process{pid: filepath.Base(filepath.Dir(file)), name: filepath.Base(string(program)), args: args})
	}
	return list
}

// marked: the process has the entry (KEY=value) in its environment.
func (p process) marked(entry string) bool {
	environ, _ := os.ReadFile(filepath.Join("/proc", p.pid, "environ")) // nothing when it has gone
	return slices.Contains(strings.Split(string(environ), "\x00"), entry)
}
