// Package selftest drives an installed agent CLI through superloop's own adapter and process handling, against a mock
// of the CLI's model API. It judges whether superloop tells success, tool use, refusals, limits, overload, a hanging
// provider and a kill apart as docs/agents.md promises. It spends no token and opens only connections to this machine.
//
// drive.go runs each case and records the observations as a Seen. judge.go judges a Seen by pure functions. The result
// is one Card per CLI.
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
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// Options say which CLI Run drives, and with what.
type Options struct {
	CLI, Program string // CLI is one of mockapi.CLIs; Program is its absolute path
	Path         string // the PATH that the CLI gets
	// Dir is the scratch directory for the CLI's home and work. Run makes it and removes it at the end. It is absolute
	// and must not exist yet. Its path should be short, because some CLIs make sockets below it.
	Dir    string
	Disk   durable.Disk
	Runner agent.Runner
	Hurry  <-chan struct{} // as in proc.Spec: ends the grace period early
	// Silence is the least bound of silence after which superloop ends a hanging run. 0 takes 12 s to 45 s, depending
	// on how long the CLI may need to start.
	Silence time.Duration
	// Permissions takes the cases about what agents ask for while they work. Hold is how long one of them is held.
	Permissions bool
	Hold        time.Duration
	Each        func(Case) // Run calls it with every case as soon as the case is judged
}

// Run drives one CLI through all cases, one after the other. It takes two to five minutes at most for a CLI that keeps
// every bound. An error means that the test itself failed or that ctx ended. The card holds the cases that were judged
// until then. Run leaves no files and no processes behind, whatever happens.
func Run(ctx context.Context, o Options) (card Card, err error) {
	card = Card{CLI: o.CLI, Program: o.Program, MissingFlags: []string{}, Cases: []Case{}}
	if err := o.Disk.MkdirAll("selftest", o.Dir, 0o700); err != nil {
		return card, err
	}
	defer func() { // cleans up even if ctx has ended
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		if _, rerr := proc.System(ctx, "", "rm", "-rf", "--", o.Dir); rerr != nil && err == nil {
			err = fmt.Errorf("removing the scratch folder: %w", rerr)
		}
	}()
	r := project.RunnerOf(o.CLI) // the runner that superloop init would write
	r.Command[0] = o.Program
	d := &driver{Options: o, traits: TraitsOf(o.CLI), cli: agent.CLI{Command: r.Command, Args: r.Args, PromptMode: r.PromptMode, Adapter: o.CLI}}
	d.adapter = agent.For(d.cli)
	card.Adapter = d.adapter.Name()
	if err := d.examine(ctx, &card); err != nil {
		return card, err
	}
	list := scenarios()
	if o.Permissions {
		list = permissionCases(o.Hold)
		if _, ok := d.adapter.(agent.Asker); !ok {
			card.Cases, list = append(card.Cases, unasked(d.adapter.Name())), nil
			o.Each(card.Cases[0])
		}
	}
	for i, sc := range list {
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

// judge turns the observations of a case into its checks. It is pure.
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
	usual   time.Duration // how long the first case took; the time that a start of the CLI usually takes
}

// home makes the directories and files of one case in dir: the CLI's home, a work directory, a directory for the loop,
// and the prompt. It returns the environment of the CLI.
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

// write writes a file and makes its directory if needed.
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

// Scratch returns a new path for Options.Dir below the directory for temporary files. It makes nothing.
func Scratch() string { return filepath.Join(os.TempDir(), "sl-selftest-"+agent.NewSessionID()[:8]) }

// prompt is the prompt of the CLI. Its text does not matter, because the mock answers by the script of the case.
const prompt = "This is a test of your command line. Do what you think is right.\n"

// drive runs one case. An error means that the test itself failed.
func (d *driver) drive(ctx context.Context, n int, sc scenario) (seen Seen, err error) {
	dir := filepath.Join(d.Dir, strconv.Itoa(n))
	p := place{work: filepath.Join(dir, "work"), nap: fmt.Sprintf("300.%09d", rand.IntN(1e9)), resetsAt: time.Now().Add(2 * time.Hour)}
	seen.ResetsAt = p.resetsAt
	script := sc.script(p, d.traits)
	server, err := mockapi.Start(func(c mockapi.Call) mockapi.Reply {
		if c.HasToolResult {
			seen.ToolOutput = c.LastToolOutput
		}
		if strings.Contains(string(c.Body), refusal) { // as the result of a tool, or as a message of the user
			seen.Told = refusal
		}
		return script(c)
	})
	if err != nil {
		return seen, err
	}
	defer func() { _ = server.Close() }() // a second Close is harmless
	env, err := d.home(dir, server.URL(), prompt, sc.subscription)
	if err != nil {
		return seen, err
	}
	if _, err := gitcmd.Scratch(ctx, p.work, "init", "-q"); err != nil {
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
	_ = server.Close() // after Close no request is under way, so seen no longer changes
	seen.Calls = server.Calls()
	written, _ := os.ReadFile(p.file()) // a missing file counts as empty
	seen.Written = string(written)
	return seen, nil
}

// run runs the agent while watch observes it. Afterwards run looks for processes that are left over and for places
// where the key leaked.
func (d *driver) run(ctx context.Context, sc scenario, p place, req agent.Request, env []string, seen *Seen) {
	var log bytes.Buffer
	var said []string // only one goroutine appends, and agent.Run waits for it
	o := agent.Options{Environ: env, Timeout: d.traits.Start + work, Grace: grace, Hurry: d.Hurry, Log: &log, LogLimit: 8 << 20,
		Redact: agent.Secrets(env, nil), WriteFile: d.write, Progress: func(line string) { said = append(said, line) }}
	begins := min(3*d.usual, d.traits.Start)
	if sc.brief && d.traits.RetriesLong {
		o.Timeout = begins + briefly
	}
	var q *inquiry
	if sc.asked != "" {
		q = &inquiry{answer: sc.answer, hold: sc.hold, work: p.work}
		req.Asked, o.Ask, o.Hold = sc.asked, q.ask, sc.hold+holdMargin
	}
	seen.Bound = o.Timeout + grace + 10*time.Second + sc.hold
	if sc.silence > 0 { // long enough that a slow start of the CLI is not taken for a hang
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
	if q != nil {
		seen.look(q)
	}
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

// watch observes the run from outside until stop is closed. It records the processes that have the key among their
// arguments. When the command of the kill case has begun, it calls kill.
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
	pid, name string // name is the last element of the program's path
	args      []byte // separated by NUL bytes
}

// processes returns the processes of this user, or all processes for root. It returns none on a system without /proc.
func processes() (list []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		args, err := os.ReadFile(file)
		if err != nil || len(args) == 0 {
			continue // the process has ended, is a zombie, or is a kernel thread
		}
		program, _, _ := bytes.Cut(args, []byte{0})
		list = append(list, process{pid: filepath.Base(filepath.Dir(file)), name: filepath.Base(string(program)), args: args})
	}
	return list
}

// marked reports whether the process has the entry (KEY=value) in its environment.
func (p process) marked(entry string) bool {
	environ, _ := os.ReadFile(filepath.Join("/proc", p.pid, "environ")) // empty if the process has ended
	return slices.Contains(strings.Split(string(environ), "\x00"), entry)
}
