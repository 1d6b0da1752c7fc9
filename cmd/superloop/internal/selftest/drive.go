package selftest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	// CLI is one of mockapi.CLIs, Program where it is; absolute.
	CLI, Program string
	// Path is the PATH that it gets.
	Path string
	// Dir is where it works and lives, made by Run and removed at its end. It is
	// absolute and must not exist; a short one suits those CLIs that put sockets
	// there.
	Dir    string
	Disk   durable.Disk
	Runner agent.Runner
	// Hurry is as in proc.Spec.
	Hurry <-chan struct{}
	// Silence is the least bound of silence with which a hanging run is ended; 0
	// is 12 s to 45 s, by the CLI. Less suits one that starts at once.
	Silence time.Duration
	// Each is told of every case as soon as it is judged; it may be nil.
	Each func(Case)
}

// Run drives one CLI through all cases, one after the other, in two to five
// minutes at most for a CLI that keeps every bound. An error means that the
// test could not be made, or that ctx ended; the card has what was judged
// until then. Nothing is left on the disk and no process runs on, whatever
// happens.
func Run(ctx context.Context, o Options) (card Card, err error) {
	card = Card{CLI: o.CLI, Program: o.Program, MissingFlags: []string{}, Cases: []Case{}}
	if err := o.Disk.MkdirAll("selftest", o.Dir, 0o700); err != nil {
		return card, err
	}
	defer func() {
		if rerr := remove(ctx, o.Dir); rerr != nil && err == nil {
			err = rerr
		}
	}()
	d := &driver{Options: o, traits: TraitsOf(o.CLI)}
	d.cli = runnerOf(o)
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
		if o.Each != nil {
			o.Each(c)
		}
	}
	card.conclude()
	return card, nil
}

// remove removes the scratch folder, also when ctx has ended.
func remove(ctx context.Context, dir string) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stop()
	if _, err := (proc.Tool{}).Run(ctx, "rm", "-rf", "--", dir); err != nil {
		return fmt.Errorf("removing the scratch folder: %w", err)
	}
	return nil
}

// runnerOf is the runner that init would write for the CLI.
func runnerOf(o Options) agent.CLI {
	r := project.RunnerOf(o.CLI)
	r.Command[0] = o.Program
	return agent.CLI{Command: r.Command, Args: r.Args, PromptMode: r.PromptMode, Adapter: o.CLI}
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

// driver drives one CLI.
type driver struct {
	Options
	traits  Traits
	cli     agent.CLI
	adapter agent.Adapter
	// usual is how long the first case took.
	usual time.Duration
}

// home makes an environment for the CLI whose home is in dir.
func (d *driver) home(dir, url string, subscription bool) ([]string, error) {
	home := filepath.Join(dir, "home")
	env, files, err := mockapi.Environment(d.CLI, url, home)
	if err != nil {
		return nil, err
	}
	if subscription && d.CLI == "claude" {
		env = mockapi.Subscription(env)
	}
	for _, sub := range []string{home, filepath.Join(dir, "tmp")} {
		if err := d.Disk.MkdirAll("selftest", sub, 0o700); err != nil {
			return nil, err
		}
	}
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := d.Disk.MkdirAll("selftest", filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := d.Disk.WriteFile("selftest", path, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return append(env, "PATH="+d.Path, "TMPDIR="+filepath.Join(dir, "tmp"), "LANG=C.UTF-8", "TERM=dumb"), nil
}

// repository makes an empty git repository, as a loop would have one.
func (d *driver) repository(ctx context.Context, dir string) error {
	if err := d.Disk.MkdirAll("selftest", dir, 0o700); err != nil {
		return err
	}
	env := append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	if _, err := (proc.Tool{Dir: dir, Env: env}).Run(ctx, "git", "init", "-q", "--template="); err != nil {
		return fmt.Errorf("making a repository for the test: %w", err)
	}
	return nil
}

// examine asks the program for its version and its flags.
func (d *driver) examine(ctx context.Context, card *Card) error {
	dir := filepath.Join(d.Dir, "0")
	env, err := d.home(dir, "http://127.0.0.1:9", false)
	if err != nil {
		return err
	}
	prompt := filepath.Join(dir, "prompt.md")
	if err := d.Disk.WriteFile("selftest", prompt, []byte("Nothing.\n"), 0o600); err != nil {
		return err
	}
	var e preflight.Examiner
	rep := e.Examine(ctx, preflight.Request{Runner: d.CLI, CLI: d.cli, Environ: env, Root: os.Geteuid() == 0, WorkDir: dir, Prompt: prompt,
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

// silence is the bound of silence of a case: long enough that the start of the
// CLI on a busy machine is not taken for a hang.
func (d *driver) silence(sc scenario) time.Duration {
	if sc.silence == 0 {
		return 0
	}
	least := max(sc.silence, d.traits.Start/2)
	if d.Silence > 0 {
		least = d.Silence
	}
	return max(least, min(3*d.usual, d.traits.Start))
}

// timeout bounds a case.
func (d *driver) timeout(sc scenario) time.Duration {
	if sc.brief != nil && sc.brief(d.traits) {
		return min(3*d.usual, d.traits.Start) + briefly
	}
	return d.traits.Start + work
}

// request is the turn, as a loop would ask for it.
func (d *driver) request(dir string, p place, runID string) agent.Request {
	req := agent.Request{CLI: d.cli, PromptPath: filepath.Join(dir, "prompt.md"), LastMessageFile: filepath.Join(dir, "last-message.md"),
		WorkDir: p.work, Repo: p.work, LoopDir: filepath.Join(dir, "loop"),
		Loop: "selftest", RunID: runID, Role: "implementer", Iteration: 1, Attempt: 1, Permissions: agent.PermitWorkspace}
	if d.adapter.Profile().ChoosesSession {
		req.SessionID = agent.NewSessionID()
	}
	return req
}

// newWord is a random word for what must be told from everything else.
func newWord() string { return strings.ReplaceAll(agent.NewSessionID(), "-", "")[:12] }

// Scratch is a path for Options.Dir in the folder for temporary files.
func Scratch() string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return filepath.Join(os.TempDir(), "sl-selftest-"+hex.EncodeToString(b[:]))
}
