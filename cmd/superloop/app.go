// Command superloop keeps a loop of coding agents alive: it runs the roles, judges their work by gates that it executes
// itself, and records what happened.
package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/slack"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
)

func main() {
	local.Main()
	os.Exit(newApp(durable.OS(), os.Stdin, os.Stdout, os.Stderr).main(os.Args))
}

// app is one invocation of the program: its streams, its environment variables and its signals. The verbs use them in
// place of os.Args, os.Stdout and os.Getenv.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    func(string) string
	disk   durable.Disk
	hurry  chan struct{} // closed by the second signal
	json   bool          // --json is among the arguments
	// repoFlag is --repo as it was typed, or "". The commands of a hint need it.
	repoFlag string
	args     []string  // the invocation as it was typed
	slack    slackSide // empty outside of tests
	// sealBeyond is local.Options.SealBeyond: 0 outside of tests.
	sealBeyond int64
	// by is who decides, if it is not whoever started this process: nil in every verb of a command line. intent is the id of
	// the control intent that the verb puts down, "" for a new one.
	by      *escalation.By
	intent  string
	sockets slack.Hub // the connections of Socket Mode
}

// errSignal is the cause of a context that a signal has ended.
type errSignal struct{ sig os.Signal }

func (e errSignal) Error() string { return e.sig.String() }

func (e errSignal) code() int {
	if e.sig == syscall.SIGTERM {
		return exitTerminated
	}
	return exitInterrupted
}

func newApp(disk durable.Disk, stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{stdin: stdin, stdout: stdout, stderr: stderr, env: os.Getenv, disk: disk, hurry: make(chan struct{})}
}

// main runs the verb that args name and returns the exit code of the process.
func (a *app) main(args []string) int {
	ctx, stop := a.signals()
	defer stop()
	a.args = args
	for _, arg := range args {
		if arg == "--" {
			break // the arguments after -- belong to another program
		}
		a.json = a.json || arg == "--json" || arg == "-json"
	}
	err := a.cli().RunContext(ctx, args)
	if err == nil {
		return exitOK
	}
	f := classify(err)
	f.hint = a.here(f.hint)
	tell(a.stderr, f, a.json)
	return f.code
}

// write prints the result of a verb: facts as JSON with --json, otherwise text, in one write. A failed write (a full
// disk) is an error of the verb, because whoever reads the file would not see that a part is missing.
func (a *app) write(c *cli.Context, facts any, text func(io.Writer)) error {
	if c.Bool("json") {
		return render.JSON(a.stdout, facts)
	}
	var b bytes.Buffer
	text(&b)
	_, err := a.stdout.Write(b.Bytes())
	return err
}

// told is write with a formatted text.
func (a *app) told(c *cli.Context, facts any, format string, args ...any) error {
	return a.write(c, facts, func(w io.Writer) { fmt.Fprintf(w, format, args...) })
}

// signals returns a context that the first SIGINT, SIGTERM or SIGHUP ends, with an errSignal as its cause. A SIGHUP that
// was ignored when superloop was started, as nohup does, stays ignored. The second signal closes hurry. The function that signals returns stops the handling of signals.
func (a *app) signals() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	ch := make(chan os.Signal, 2)
	ends := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	signal.Notify(ch, ends...)
	go func() {
		hurry := sync.OnceFunc(func() { close(a.hurry) })
		for sig := range ch {
			if ctx.Err() == nil {
				cancel(errSignal{sig})
			} else {
				hurry()
			}
		}
	}()
	return ctx, func() {
		signal.Stop(ch) // nothing is sent from now on
		close(ch)
		cancel(nil)
	}
}

func (a *app) cli() *cli.App {
	c := &cli.App{
		Name:                      "superloop",
		Usage:                     "keep a loop of coding agents alive through the night",
		Writer:                    a.stdout,
		ErrWriter:                 a.stderr,
		HideVersion:               true,
		HideHelpCommand:           true,
		Suggest:                   true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              usageError,
		CommandNotFound:           func(*cli.Context, string) {},
		Commands:                  a.commands(),
		Flags:                     []cli.Flag{&cli.BoolFlag{Name: "version", Usage: "print the version"}, cli.HelpFlag}, // the library has no --help beside a verb help
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() > 0:
				return failf(exitUsage, "superloop --help", "no such command: %q%s", c.Args().First(), a.nearest(c.Args().First()))
			case c.Bool("version"):
				return a.version(c)
			}
			fmt.Fprint(a.stdout, overview(c.App.Commands))
			return silent(exitUsage)
		},
	}
	c.CustomAppHelpTemplate = strings.ReplaceAll(overview(c.Commands), "{{", "{{`{{`}}")
	for _, cmd := range c.Commands {
		a.finish(cmd)
	}
	return c
}

// meant holds the verbs for what people type in their place.
var meant = map[string]string{
	"continue": "run", "daemon": "serve", "loop": "run", "go": "run", "restart": "run --fresh", "kill": "cancel", "abort": "cancel", "quit": "cancel",
	"ls": "list", "loops": "list", "ps": "status", "state": "status", "show": "status", "log": "logs", "tail": "logs --follow", "output": "logs", "history": "events", "journal": "events",
	"cost": "stats", "costs": "stats", "usage": "stats", "changes": "diff", "result": "report", "html": "report", "take": "merge", "land": "merge", "pull-request": "pr", "mr": "pr", "agents": "runners", "questions": "inbox", "pending": "inbox", "todo": "inbox", "ask": "inbox",
	"yes": "approve-recovery", "accept": "approve-recovery", "allow": "approve-recovery", "no": "reject-recovery", "deny": "reject-recovery", "refuse": "reject-recovery", "done": "resolve-recovery",
	"setup": "init", "new": "add", "create": "init", "configure": "init", "lint": "validate", "check": "validate", "health": "doctor", "diagnose": "classify", "why": "classify", "explain": "classify",
	"repair": "fix", "heal": "fix", "cure": "fix", "recover": "fix", "rollback": "undo", "revert": "undo", "restore": "undo", "retry": "kick", "nudge": "kick", "settings": "config show", "teach": "learn",
}

func (a *app) nearest(name string) string {
	if verb, ok := meant[strings.ToLower(name)]; ok {
		return fmt.Sprintf("; did you mean %q?", verb)
	}
	for _, cmd := range a.commands() {
		if !cmd.Hidden && len(name) > 1 && (strings.HasPrefix(cmd.Name, name[:2]) || strings.Contains(cmd.Name, name)) {
			return fmt.Sprintf("; did you mean %q?", cmd.Name)
		}
	}
	return ""
}

// finish gives a command and its subcommands what all commands share: usage errors end with exit code 2, and a command
// without ArgsUsage refuses arguments.
func (a *app) finish(cmd *cli.Command) {
	cmd.OnUsageError = usageError
	cmd.HideHelpCommand = true
	if action := cmd.Action; action != nil && !cmd.SkipFlagParsing {
		cmd.Action = func(c *cli.Context) error {
			if c.NArg() > 0 && cmd.ArgsUsage == "" {
				return failf(exitUsage, a.asFlag(c), "%s takes no argument, but got %q", cmd.Name, c.Args().First())
			}
			if c.IsSet("repo") {
				a.repoFlag = c.String("repo")
			}
			return action(c)
		}
	}
	for _, sub := range cmd.Subcommands {
		a.finish(sub)
	}
}

// asFlag returns the command line that the operator probably meant, for a hint. A lone argument is most often the id of
// a loop or the name of a runner. The flag parser stops at such an argument and does not read the flags after it.
func (a *app) asFlag(c *cli.Context) string {
	for _, f := range c.Command.Flags {
		if name := f.Names()[0]; name == "loop" || name == "runner" {
			rest := strings.Join(c.Args().Tail(), " ")
			return strings.TrimSpace(fmt.Sprintf("%s --%s %s %s", typed(c), name, c.Args().First(), rest))
		}
	}
	return typed(c) + " --help"
}

func usageError(c *cli.Context, err error, _ bool) error {
	return &fault{code: exitUsage, err: err, hint: typed(c) + " --help"}
}

// repo returns the repository that a verb works on: the folder of --repo, or without --repo the nearest folder that
// holds .superloop, from the current folder upwards. If no folder holds it, repo returns the current folder.
func (a *app) repo(c *cli.Context) (string, error) {
	dir, err := filepath.Abs(c.String("repo"))
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return "", failf(exitNotFound, typed(c)+" --repo DIR", "--repo %s is not a folder", c.String("repo"))
	}
	if c.IsSet("repo") {
		return dir, nil
	}
	for at := dir; ; at = filepath.Dir(at) {
		if info, err := os.Stat(filepath.Join(at, ".superloop")); err == nil && info.IsDir() {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return dir, nil
		}
	}
}

// pick returns the loop that a verb is about: the loop of --loop, which must be one of ids, or the only one of ids.
func pick(c *cli.Context, ids []string) (string, error) {
	id := c.String("loop")
	if id == "" {
		if len(ids) == 1 {
			return ids[0], nil
		}
		return "", failf(exitUsage, typed(c)+" --loop "+ids[0], "which loop? this repository has %s", strings.Join(ids, ", "))
	}
	if !slices.Contains(ids, id) {
		return "", failf(exitNotFound, "superloop list", "no loop %q; this repository has %s", id, strings.Join(ids, ", "))
	}
	return id, nil
}

func (a *app) paths(repo, id string) (layout.Paths, error) {
	return layout.NewPaths(repo, id, a.env("XDG_STATE_HOME"))
}

// place is a loop and the paths of its files.
type place struct {
	layout.Paths
	id string
}

func (a *app) places(repo string, ids ...string) ([]place, error) {
	out := make([]place, len(ids))
	for i, id := range ids {
		paths, err := a.paths(repo, id)
		if err != nil {
			return nil, err
		}
		out[i] = place{paths, id}
	}
	return out, nil
}

// chosenLoops returns the repository and the loops that a verb is about: the loop of --loop, or all loops without the
// flag. If one is true, it returns a single loop: that of --loop, or the repository's only one.
func (a *app) chosenLoops(c *cli.Context, one bool) (repo string, loops []place, err error) {
	if repo, err = a.repo(c); err != nil {
		return "", nil, err
	}
	ids, err := a.loopIDs(repo)
	if err == nil && (one || c.IsSet("loop")) {
		ids[0], err = pick(c, ids)
		ids = ids[:1]
	}
	if err == nil {
		loops, err = a.places(repo, ids...)
	}
	return repo, loops, err
}

// theLoop returns the loop of --loop, or the repository's only loop.
func (a *app) theLoop(c *cli.Context) (place, error) {
	_, loops, err := a.chosenLoops(c, true)
	if err != nil {
		return place{}, err
	}
	return loops[0], nil
}

// private returns the repository and the paths of its private state. The caller may use only the paths that all of the
// repository's loops share.
func (a *app) private(c *cli.Context) (string, layout.Paths, error) {
	repo, err := a.repo(c)
	if err != nil {
		return "", layout.Paths{}, err
	}
	paths, err := a.paths(repo, "any")
	return repo, paths, err
}

// pickOf returns the loop of --loop, which must be in cfg. It returns "" without the flag.
func pickOf(c *cli.Context, cfg *config.Config) (string, error) {
	if !c.IsSet("loop") {
		return "", nil
	}
	var ids []string
	for _, l := range cfg.Loops {
		ids = append(ids, l.ID)
	}
	return pick(c, ids)
}

// ttyOf returns the stream if it is a terminal, else nil.
func ttyOf(stream any) *os.File {
	if f, ok := stream.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return f
	}
	return nil
}

// width returns the number of columns of stdout, 0 if stdout is no terminal.
func (a *app) width() int {
	if f := ttyOf(a.stdout); f != nil {
		return columns(f)
	}
	return 0
}

// who returns the name of the operator: --by, else the user in the environment, else the uid.
func (a *app) who(c *cli.Context) string {
	return cmp.Or(c.String("by"), a.env("SUDO_USER"), a.env("USER"), a.env("LOGNAME"), fmt.Sprintf("uid %d", os.Getuid()))
}
