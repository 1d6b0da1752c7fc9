package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/plan/walk"
)

func (a *app) chainCommand() *cli.Command {
	flags := func(more ...cli.Flag) []cli.Flag {
		return append([]cli.Flag{repoFlag(), loopFlag("the loop whose chain it is (default: those of superloop fix)")}, more...)
	}
	answer := []cli.Flag{
		&cli.StringFlag{Name: "by", Usage: "who decides (`NAME`; default: the user)"},
		&cli.StringFlag{Name: "note", Usage: "why; the next planner reads it (`TEXT`; with --loop)"},
	}
	walk := []cli.Flag{
		&cli.BoolFlag{Name: "yes", Usage: "do not ask about remedies that are not listed"},
		&cli.DurationFlag{Name: "timeout", Value: 30 * time.Minute, Usage: "end the chain's own command after this `TIME`, each time"},
		&cli.IntFlag{Name: "depth", Usage: "on this level `N` (default: the deepest)"},
	}
	return &cli.Command{
		Name:  "chain",
		Usage: "look at the remedies of a failed command, choose one, go on after a crash",
		Description: `A chain is what superloop fix, or a loop, does about one failed command: levels, since
a remedy can itself need a remedy. ID may be left out: the newest one. With --loop it is
that of a loop; a loop that waits for a person takes one of its question's options by
choose, as by approve-recovery --edit.`,
		ArgsUsage: "list|show|choose|retry|cancel|undo",
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list the chains, the newest last", Description: "EXIT STATUS: 0 listed, 1 one cannot be read.",
				Flags: flags(jsonFlag("print the chains as JSON")), Action: a.chainList},
			{Name: "show", ArgsUsage: "[ID]", Usage: "show a chain: its levels, options, errors and what can be typed next",
				Description: "EXIT STATUS: 0 shown, 4 there is none, 6 there is none of that ID.",
				Flags:       flags(jsonFlag("print the chain as JSON (schemas/chain.schema.json)")), Action: a.chainShow},
			{Name: "choose", ArgsUsage: "[ID] OPTION", Usage: "have an option carried out, on whatever level it is",
				Description: "The choice is the approval: what the policy denies does not run all the same.\n\nEXIT STATUS: as fix; with --loop as approve-recovery.",
				Flags:       flags(append(append(walk, answer...), jsonFlag("print what came of it as JSON; asks nothing"))...), Action: a.chainChoose},
			{Name: "retry", ArgsUsage: "[ID]", Usage: "go on with a chain that was broken off, or try a level once more",
				Description: "What was begun when superloop was killed is done once more: look first at what it has\ndone.\n\nEXIT STATUS: as fix.",
				Flags:       flags(append(walk, jsonFlag("print what came of it as JSON; asks nothing"))...), Action: a.chainRetry},
			{Name: "cancel", ArgsUsage: "[ID]", Usage: "end a chain", Description: "EXIT STATUS: 0 ended, 4 there is nothing to end; with --loop as reject-recovery.",
				Flags: flags(append(answer, jsonFlag("print the chain as JSON"))...), Action: a.chainCancel},
			{Name: "undo", ArgsUsage: "[ID]", Usage: "put back what the remedies of a chain deleted or overwrote",
				Description: "EXIT STATUS: 0 everything that was kept is there again, 1 something is not, 4 nothing was\nkept.",
				Flags: []cli.Flag{repoFlag(), &cli.BoolFlag{Name: "force", Usage: "move what has changed since beside, and put back what was kept"},
					jsonFlag("print the reports as JSON")}, Action: a.chainUndo},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return failf(exitUsage, "superloop chain --help", "no such command: chain %q", c.Args().First())
			}
			if err := cli.ShowSubcommandHelp(c); err != nil {
				return err
			}
			return silent(exitUsage)
		},
	}
}

// listedChain is a line of chain list.
type listedChain struct {
	ID       string      `json:"chain_id"`
	Loop     string      `json:"loop_id,omitempty"` // "" of superloop fix
	Status   plan.Status `json:"status"`
	Held     bool        `json:"held,omitempty"` // something was begun and has no outcome
	Command  string      `json:"command"`
	Depth    int         `json:"depth"`
	Attempts int         `json:"attempts"`
	Why      string      `json:"why,omitempty"`
	Updated  time.Time   `json:"updated_at"`
	Error    string      `json:"error,omitempty"`

	chain plan.Chain
}

func listed(c plan.Chain, loopID string) listedChain {
	return listedChain{ID: c.ID, Loop: loopID, Status: c.Status, Held: c.Running != nil, Command: c.Goal.Command, Depth: c.Depth(), Attempts: c.Attempts,
		Why: c.Why, Updated: c.UpdatedAt, chain: c}
}

// chains are those of fix, or of a loop, the newest last.
func (a *app) chains(c *cli.Context) ([]listedChain, error) {
	repo, err := a.repo(c)
	if err != nil {
		return nil, err
	}
	out := []listedChain{}
	add := func(store walk.Store, loopID string) error {
		entries, err := store.List()
		for _, e := range entries {
			l := listed(e.Chain, loopID)
			if e.Err != nil {
				l.Error = e.Err.Error()
			}
			out = append(out, l)
		}
		return err
	}
	if !c.IsSet("loop") {
		paths, err := a.paths(repo, "any")
		if err != nil {
			return nil, err
		}
		return out, add(a.fixStore(paths), "")
	}
	id, paths, err := a.theLoop(c)
	if err != nil {
		return nil, err
	}
	if err := add(walk.Store{Disk: a.disk, Dir: paths.File("chains")}, id); err != nil {
		return nil, err
	}
	view, err := local.ReadView(paths)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if r := view.Recovery; r != nil && r.Plan != nil { // what is being walked is newer than any file of it
		out = slices.DeleteFunc(out, func(l listedChain) bool { return l.ID == r.Plan.ID })
		out = append(out, listed(*r.Plan, id))
	}
	return out, nil
}

func (a *app) chainList(c *cli.Context) error {
	all, err := a.chains(c)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, map[string]any{"chains": all})
	} else {
		var lines []render.ChainLine
		for _, l := range all {
			lines = append(lines, render.ChainLine{ID: l.ID, Status: string(l.Status), Held: l.Held, Command: l.Command, Depth: l.Depth, Attempts: l.Attempts, Error: l.Error})
		}
		err = render.Chains(a.stdout, lines)
	}
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.Error != "" {
			return silent(exitFailed)
		}
	}
	return nil
}

// oneChain is the chain of that id, or the newest.
func (a *app) oneChain(c *cli.Context, id string) (listedChain, error) {
	all, err := a.chains(c)
	if err != nil {
		return listedChain{}, err
	}
	what := "superloop fix has opened no chain here"
	if c.IsSet("loop") {
		what = "loop " + c.String("loop") + " has no chain now"
	}
	if len(all) == 0 && id == "" {
		return listedChain{}, failf(exitNothing, "superloop fix -- npm test", "%s", what)
	}
	i := len(all) - 1
	if id != "" {
		i = slices.IndexFunc(all, func(l listedChain) bool { return l.ID == id })
	}
	if i < 0 {
		return listedChain{}, failf(exitNotFound, "superloop chain list", "there is no chain %q", id)
	}
	if all[i].Error != "" {
		return listedChain{}, failf(exitFailed, "superloop chain list", "%s", all[i].Error)
	}
	return all[i], nil
}

func (a *app) chainShow(c *cli.Context) error {
	args, err := atMost(c, 1)
	if err != nil {
		return err
	}
	l, err := a.oneChain(c, args[0])
	var none *fault
	if errors.As(err, &none) && none.code == exitNothing && c.IsSet("loop") {
		return a.showQuestion(c, none)
	}
	if err != nil {
		return err
	}
	return a.tellChain(c, l.chain)
}

func (a *app) tellChain(c *cli.Context, ch plan.Chain) error {
	if c.Bool("json") {
		body, err := plan.Response(ch)
		if err != nil {
			return err
		}
		return render.JSON(a.stdout, json.RawMessage(body))
	}
	width := 0
	if f, ok := a.stdout.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		width = columns(f)
	}
	_, err := fmt.Fprintf(a.stdout, "Chain %s\n%s", ch.ID, plan.Describe(ch, width))
	return err
}

// atMost are the arguments of a verb, filled up to n with "".
func atMost(c *cli.Context, n int) ([]string, error) {
	args, err := words(c)
	if err == nil && len(args) > n {
		err = failf(exitUsage, typed(c)+" --help", "%s takes %s at most, but got %q too", typed(c), count(n, "argument"), args[n])
	}
	for len(args) < n {
		args = append(args, "")
	}
	return args, err
}

func (a *app) chainChoose(c *cli.Context) error {
	args, err := atMost(c, 2)
	switch {
	case err != nil:
		return err
	case args[0] == "":
		return failf(exitUsage, "superloop chain show", "which option? superloop chain show lists them")
	}
	id, option := args[0], args[1]
	if option == "" {
		id, option = "", args[0]
	}
	if c.IsSet("loop") {
		return a.chooseInLoop(c, id, option)
	}
	return a.goOn(c, id, func(ch *plan.Chain, now time.Time) error {
		if ch.Running != nil {
			ch.Lost("superloop was ended while it ran, and a person chose another one", now)
		}
		if err := ch.Pick(c.Int("depth"), option, now); err != nil {
			return failf(exitUsage, "superloop chain show "+ch.ID, "choosing %s: %w", render.Clean(option), err)
		}
		return nil
	})
}

func (a *app) chainRetry(c *cli.Context) error {
	args, err := atMost(c, 1)
	switch {
	case err != nil:
		return err
	case c.IsSet("loop"):
		return failf(exitUsage, "superloop approve-recovery --loop "+text.Paste(c.String("loop")), "a loop tries again by itself; one that waits for a person goes on with approve-recovery, chain choose or kick")
	}
	return a.goOn(c, args[0], func(ch *plan.Chain, now time.Time) error {
		var err error
		switch {
		case ch.Running != nil:
			err = ch.Again(now)
		case ch.Status == plan.Open && !c.IsSet("depth"): // it was broken off between two moves
		default:
			err = ch.Retry(c.Int("depth"), now)
		}
		if err != nil {
			return failf(exitNothing, "superloop chain show "+ch.ID, "trying again: %w", err)
		}
		return nil
	})
}

// goOn has a person's word changed into a chain of fix, and walks it.
func (a *app) goOn(c *cli.Context, id string, change func(*plan.Chain, time.Time) error) error {
	if c.Duration("timeout") <= 0 {
		return failf(exitUsage, typed(c)+" --timeout 30m", "--timeout %s: a time above 0 is needed", c.Duration("timeout"))
	}
	l, err := a.oneChain(c, id)
	if err != nil {
		return err
	}
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	w, err := a.newWalker(c, repo)
	if err != nil {
		return err
	}
	err = w.goOn(c.Context, l.ID, change)
	return errors.Join(err, w.close())
}

func (w *walker) goOn(ctx context.Context, id string, change func(*plan.Chain, time.Time) error) error {
	ch, err := w.store.Change(id, func(ch *plan.Chain) error { return change(ch, time.Now()) })
	if err != nil {
		return heldElsewhere(err)
	}
	w.ch = &ch
	dir := filepath.Join(w.repo, filepath.FromSlash(ch.Goal.Dir))
	if err := w.at(dir); err != nil {
		return failf(exitNotFound, "superloop chain cancel "+id, "the folder in which %s failed is gone: %w", render.Clean(ch.Goal.Command), err)
	}
	err = w.walk(ctx)
	return w.reportChain(fixed{Status: "failed"}, err)
}

func heldElsewhere(err error) error {
	var held *durable.LockedError
	if errors.As(err, &held) {
		return failf(exitHeld, "superloop chain list", "%w", err)
	}
	return err
}
