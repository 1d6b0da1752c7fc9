package main

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/schemas"
)

// verbsText holds the verbs with their flags and help texts, in the order in which help lists them. The head of the
// file describes its syntax.
//
//go:embed verbs.txt
var verbsText string

// commands returns the verbs. It binds each verb of verbs.txt to the function that carries it out.
func (a *app) commands() []*cli.Command {
	answer := func(method escalation.Method) cli.ActionFunc {
		return a.byOperator(func(c *cli.Context) error {
			if c.Bool("reject") {
				return a.answer(c, escalation.Reject)
			}
			return a.answer(c, method)
		})
	}
	actions := map[string]cli.ActionFunc{
		"demo": a.demo, "doctor": a.doctor, "preflight": a.checks, "runner-smoke": a.smokeRunners, "selftest": a.selftest,
		"__agent": a.playAgent, "__complete": a.complete, "__host": a.byOperator(a.host),
		"init": a.init, "add": a.byOperator(a.add), "run": a.run, "status": a.status, "list": a.list, "events": a.events, "logs": a.logs, "watch": a.watch, "stats": a.stats,
		"runners": a.runners, "validate": a.validate, "classify": a.classifyFailure, "fix": a.byOperator(a.fix), "learn": a.byOperator(a.learn), "verify": a.verifyTool,
		"diff": a.diff, "report": a.reportPage, "merge": a.byOperator(a.merge), "pr": a.byOperator(a.pullRequest),
		"serve": a.byOperator(a.serve), "start": a.byOperator(a.start), "stop": a.byOperator(a.stop), "resume": a.byOperator(a.resume), "attach": a.attach, "clean": a.byOperator(a.clean), "queue": a.queue, "queue add": a.byOperator(a.queueAdd), "queue watch": a.byOperator(a.queueWatch), "queue release": a.byOperator(a.queueRelease),
		"plan": group, "plan split": a.byOperator(a.planSplit),
		"inbox": a.inbox, "undo": a.undo, "kick": a.byOperator(a.kick), "cancel": a.byOperator(a.cancel), "pause": a.byOperator(a.pause), "note": a.byOperator(a.note),
		"token":        group,
		"token create": a.byOperator(a.tokenCreate), "token list": a.tokenList, "token revoke": a.byOperator(a.tokenRevoke), "token code": a.byOperator(a.tokenCode),
		"passkey": group, "passkey list": a.passkeyList, "passkey revoke": a.byOperator(a.passkeyRevoke),
		"ui": a.byOperator(a.ui), "confirm": a.byOperator(a.confirmRequests),
		"completion": a.completion, "help": a.help, "version": a.version,
		"policy":       group,
		"policy check": a.policyCheck, "policy lint": a.policyLint, "policy test": a.policyTest, "policy suggest": a.policySuggest, "replay": a.replay,
		"chain":      group,
		"chain list": a.chainList, "chain show": a.chainShow, "chain choose": a.byOperator(a.chainChoose),
		"chain skip": a.byOperator(a.chainSkip), "chain retry": a.byOperator(a.chainRetry), "chain cancel": a.byOperator(a.chainCancel), "chain undo": a.byOperator(a.chainUndo),
		"config":      group,
		"config diff": a.configDiff, "config show": a.configShow, "config trust": a.byOperator(a.configTrust),
		"notify":      group,
		"notify test": a.byOperator(a.notifyTest), "notify list": a.notifyList,
		"approve-recovery": answer(escalation.Approve), "reject-recovery": answer(escalation.Reject),
		"resolve-recovery": answer(escalation.Resolve), "approve": answer(escalation.Approve),
	}
	var all []*cli.Command
	_, text, _ := strings.Cut(verbsText, "\n== ")
	for block := range strings.SplitSeq(text, "\n== ") {
		cmd := readVerb(block)
		parent, sub, isSub := strings.Cut(cmd.Name, " ")
		switch {
		case isSub:
			cmd.Action, cmd.Name = actions[cmd.Name], sub
			last := all[len(all)-1] // in verbs.txt a verb stands above its subcommands
			if last.Name == parent {
				last.Subcommands = append(last.Subcommands, cmd)
			}
		default:
			cmd.Action, cmd.SkipFlagParsing = actions[cmd.Name], cmd.Name == "__agent"
			all = append(all, cmd)
		}
	}
	return all
}

// operator refuses a process that descends from something that superloop runs: an agent may ask, and never answer.
func (a *app) operator() error {
	_, err := escalation.CheckCaller("/proc", os.Environ())
	if agent, ok := errors.AsType[*escalation.AgentError](err); ok {
		return failf(exitHuman, "", "%w", agent)
	}
	return err
}

// byOperator wraps a verb so that it refuses to run for an agent.
func (a *app) byOperator(verb cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if err := a.operator(); err != nil {
			return err
		}
		return verb(c)
	}
}

// readVerb parses the block of one verb in verbs.txt.
func readVerb(block string) *cli.Command {
	facts, description, _ := strings.Cut(block, "\n\n")
	lines := strings.Split(strings.TrimSpace(facts), "\n")
	name, args, _ := strings.Cut(lines[0], ": ")
	cmd := &cli.Command{Name: name, ArgsUsage: args, Description: strings.TrimSpace(description)}
	for i, line := range lines[1:] {
		group, isGroup := strings.CutPrefix(line, "in: ")
		switch {
		case i == 0:
			cmd.Usage, cmd.Hidden = strings.CutPrefix(line, "hidden: ")
		case isGroup:
			cmd.Category = group
		default:
			cmd.Flags = append(cmd.Flags, readFlag(line))
		}
	}
	return cmd
}

// readFlag parses a line of verbs.txt: "--NAME[,ALIAS] TYPE [DEFAULT]: USAGE".
func readFlag(line string) cli.Flag {
	head, usage, _ := strings.Cut(line, ": ")
	words := append(strings.Fields(strings.TrimPrefix(head, "--")), "", "")
	names, value := strings.Split(words[0], ","), words[2]
	switch words[1] {
	case "string":
		return &cli.StringFlag{Name: names[0], Aliases: names[1:], Value: value, Usage: usage}
	case "strings":
		return &cli.StringSliceFlag{Name: names[0], Aliases: names[1:], Usage: usage}
	case "int":
		n, _ := strconv.Atoi(value) // 0 without a default
		return &cli.IntFlag{Name: names[0], Aliases: names[1:], Value: n, Usage: usage}
	case "float":
		return &cli.Float64Flag{Name: names[0], Aliases: names[1:], Usage: usage}
	case "int64":
		return &cli.Int64Flag{Name: names[0], Aliases: names[1:], Usage: usage}
	case "duration":
		d, _ := time.ParseDuration(value) // 0 without a default
		return &cli.DurationFlag{Name: names[0], Aliases: names[1:], Value: d, Usage: usage}
	}
	return &cli.BoolFlag{Name: names[0], Aliases: names[1:], Usage: usage}
}

// group is the action of a verb that has only subcommands: it names them and ends with exit code 2.
func group(c *cli.Context) error {
	name := c.Command.Name
	switch {
	case name == "config" && c.NArg() > 0:
		return failf(exitUsage, "superloop config --help", "config has no %q; it has trust, show and diff", c.Args().First())
	case name == "config":
		return failf(exitUsage, "superloop config --help", "config wants one of trust, show, diff")
	case c.NArg() > 0:
		return failf(exitUsage, "superloop "+name+" --help", "no such command: %s %q", name, c.Args().First())
	}
	if err := cli.ShowSubcommandHelp(c); err != nil {
		return err
	}
	return silent(exitUsage)
}

// groups are the headings below which help lists the verbs.
var groups = []string{"set up", "run", "watch", "decide", "explain and repair"}

// overview is the help of the program.
func overview(verbs []*cli.Command) string {
	var b strings.Builder
	b.WriteString("superloop keeps a loop of coding agents alive through the night.\n\nUSAGE:\n   superloop VERB [flags]\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n", strings.ToUpper(g))
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, v := range verbs {
			if v.Category == g && !v.Hidden {
				fmt.Fprintf(t, "   %s\t%s\n", v.Name, v.Usage)
			}
		}
		_ = t.Flush() // a Builder never fails
	}
	b.WriteString("\nsuperloop help VERB explains a verb, superloop help config.KEY a key of the configuration.\n")
	return b.String()
}

func (a *app) help(c *cli.Context) error {
	words := c.Args().Slice()
	if c.Bool("man") {
		return a.manual(words)
	}
	if len(words) == 0 {
		fmt.Fprint(a.stdout, overview(a.commands()))
		return nil
	}
	if path, ok := strings.CutPrefix(words[0], "config."); ok && len(words) == 1 {
		return a.helpKey(path)
	}
	verbs := a.commands()
	for _, w := range words {
		i := slices.IndexFunc(verbs, func(v *cli.Command) bool { return v.Name == w })
		if i < 0 {
			if _, ok := schemas.KeyOf(schemas.Config, w); ok && len(words) == 1 {
				return a.helpKey(w)
			}
			return failf(exitUsage, "superloop help", "no such verb: %q%s", strings.Join(words, " "), a.nearest(words[0]))
		}
		verbs = verbs[i].Subcommands
	}
	return a.cli().RunContext(c.Context, slices.Concat([]string{"superloop"}, words, []string{"--help"}))
}

// helpKey prints what the schema of the configuration says of a key.
func (a *app) helpKey(path string) error {
	k, ok := schemas.KeyOf(schemas.Config, path)
	if !ok {
		parent := "config"
		if i := strings.LastIndexByte(path, '.'); i > 0 {
			parent = "config." + path[:i]
		}
		return failf(exitUsage, "superloop help "+text.Paste(parent), "the configuration has no key %q", path)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "config.%s", k.Path)
	if k.Type != "" {
		fmt.Fprintf(w, " (%s)", k.Type)
	}
	fmt.Fprintf(w, "\n\n%s\n", k.Description)
	if k.Default != "" {
		fmt.Fprintf(w, "\nDefault: %s\n", k.Default)
	}
	if len(k.Allowed) > 0 {
		fmt.Fprintf(w, "\nAllowed: %s\n", strings.Join(k.Allowed, ", "))
	}
	if len(k.Keys) > 0 {
		fmt.Fprint(w, "\nKEYS:\n")
		for _, sub := range k.Keys {
			fmt.Fprintf(w, "   %s\t%s\n", sub.Path, sub.Description)
		}
		fmt.Fprintf(w, "\nsuperloop help config.%s.%s explains one of them.\n", k.Path, k.Keys[0].Path)
	}
	return w.Flush()
}

// completions holds the completion scripts. They ask superloop __complete for verbs, flags and the ids of the
// repository's loops.
//
//go:embed completion/superloop.*
var completions embed.FS

func (a *app) completion(c *cli.Context) error {
	script, err := completions.ReadFile("completion/superloop." + c.Args().First())
	if err != nil || c.NArg() != 1 {
		return failf(exitUsage, "superloop completion bash", "completion wants one of bash, zsh, fish")
	}
	_, err = a.stdout.Write(script)
	return err
}

// complete prints words for the completion scripts, one a line: the verbs, those below a verb, the flags of a verb, or the
// ids of loops.
func (a *app) complete(c *cli.Context) error {
	var lines []string
	below, verb := a.commands(), &cli.Command{}
	for _, word := range c.Args().Tail() {
		i := slices.IndexFunc(below, func(v *cli.Command) bool { return v.Name == word })
		if i < 0 {
			below = nil
			break
		}
		verb, below = below[i], below[i].Subcommands
	}
	switch c.Args().First() {
	case "verbs":
		for _, v := range below {
			if !v.Hidden {
				lines = append(lines, v.Name)
			}
		}
	case "flags":
		for _, f := range verb.Flags {
			lines = append(lines, "--"+f.Names()[0])
		}
	case "loops":
		_, loops, err := a.chosenLoops(c, false)
		if err != nil {
			return err
		}
		for _, l := range loops {
			lines = append(lines, l.id)
		}
	}
	for _, line := range lines {
		fmt.Fprintln(a.stdout, line)
	}
	return nil
}

func msec(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func loopFile(repo, id, name string) string {
	return filepath.Join(repo, ".superloop", "loops", id, name)
}

// relTo returns path relative to the repository if the repository is the current folder, else path as it is.
func relTo(repo, path string) string {
	if wd, err := os.Getwd(); err == nil && wd == repo {
		if rel, err := filepath.Rel(wd, path); err == nil {
			return rel
		}
	}
	return path
}

// table prints rows below their heads. Tabs separate the cells.
func table[T any](w io.Writer, heads string, rows []T, cells func(T) string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, heads)
	for _, r := range rows {
		fmt.Fprintln(t, cells(r))
	}
	return t.Flush()
}

// columns returns the width of a terminal, 80 if the terminal does not report it.
func columns(f *os.File) int {
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 {
		return int(ws.Col)
	}
	return 80
}

// form returns the form in which a verb writes to a stream: with the colour that --color asks for, wrapped if the stream
// is a terminal.
func (a *app) form(c *cli.Context, stream io.Writer) (screen.Form, error) {
	var f screen.Form
	tty := ttyOf(stream)
	if tty != nil {
		f.Columns = func() int { return columns(tty) }
	}
	var err error
	if f.Colour, err = screen.Colour(c.String("color"), tty != nil, a.env); err != nil {
		return f, failf(exitUsage, typed(c)+" --color never", "%w", err)
	}
	return f, nil
}

// typed returns the verb as an operator types it, with the program and the parent verb: "superloop config diff".
func typed(c *cli.Context) string { return cmp.Or(c.Command.HelpName, "superloop") }

// reportsText holds the templates for the output of policy check, inbox and notify list.
//
//go:embed reports.tmpl
var reportsText string

var reports = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("reports").Funcs(template.FuncMap{
		"show": text.Display, "clean": render.Clean, "count": render.Number,
		"add":   func(x, y int) int { return x + y },
		"ms":    func(n int64) string { return render.Duration(msec(n)) },
		"until": func(t time.Time) string { return render.Duration(max(0, time.Until(t))) },
		"lines": func(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") },
	}).Parse(reportsText))
})

// report prints a template of reports.tmpl with data, or the facts with --json.
func (a *app) report(c *cli.Context, facts any, name string, data any) error {
	var failed error
	err := a.write(c, facts, func(w io.Writer) { failed = reports().ExecuteTemplate(w, name, data) })
	return cmp.Or(failed, err)
}
