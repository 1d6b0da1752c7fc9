package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/recovery/inputs"
)

// trusted holds the inputs of the verbs about trust: the configuration file, the section of it that needs an operator's
// trust, and the pin of the section that was trusted last.
type trusted struct {
	repo    string
	file    *config.Config
	section trust.Section
	digest  string
	store   trust.Store
	pin     trust.Pin
	// pinErr is nil, trust.ErrNoPin or a *trust.DamagedError. After an error the pin is empty.
	pinErr error
	ledger inputs.Ledger
	reads  []reads // only after look
}

func (a *app) trusted(c *cli.Context) (t trusted, err error) {
	repo, file, err := a.configured(c)
	if err != nil {
		return t, err
	}
	return a.trustedFile(repo, file, cmp.Or(c.String("loop"), "any"))
}

// trustedFile returns the inputs for a configuration that the caller has read. id is the loop whose own one it may be.
func (a *app) trustedFile(repo string, file *config.Config, id string) (t trusted, err error) {
	t.repo, t.file = repo, file
	if len(file.Loops) == 1 && file.Path != configFile(repo) {
		id = file.Loops[0].ID // --loop may be missing where there is no other loop
	}
	if t.section, err = trust.Of(t.file); err != nil {
		return t, failf(exitConfig, "superloop validate", "%w", err)
	}
	t.digest = t.section.Digest()
	paths, err := a.paths(t.repo, id)
	if err != nil {
		return t, err
	}
	t.store = trust.Store{Disk: a.disk, Path: paths.Trust(t.file.Path)}
	t.pin, t.pinErr = t.store.Load()
	t.ledger = inputs.Ledger{Disk: a.disk, Dir: paths.Common(), Repo: paths.Repo}
	return t, nil
}

// unpinned returns the fault of a verb that needs a pin, nil if there is a pin.
func (t trusted) unpinned() error {
	if damaged, ok := errors.AsType[*trust.DamagedError](t.pinErr); ok {
		return &fault{code: exitConfig, err: damaged, hint: damaged.Hint()}
	}
	if t.pinErr != nil {
		return failf(exitNothing, "superloop config trust   (the first run pins it too)", "%w", t.pinErr)
	}
	return nil
}

// inForce returns the configuration in force, which is the file without the changes that superloop holds until an
// operator trusts them. It also returns how the file differs from the pin. Without a pin the whole file is in force,
// because the first run pins it as it is.
func (t trusted) inForce() (*config.Config, trust.Diff, error) {
	switch {
	case errors.Is(t.pinErr, trust.ErrNoPin):
		return t.file, trust.Diff{}, nil
	case t.pinErr != nil:
		return nil, trust.Diff{}, t.unpinned()
	}
	cfg, err := trust.Apply(t.file, trust.Effective(t.pin.Section, t.section))
	return cfg, trust.Compare(t.pin.Section, t.section), err
}

// name returns the path of the file for a message.
func (t trusted) name() string { return relTo(t.repo, t.file.Path) }

func (a *app) configDiff(c *cli.Context) error {
	t, err := a.trusted(c)
	if err != nil {
		return err
	}
	if err := t.unpinned(); err != nil {
		return err
	}
	if err := t.look(c.Context); err != nil {
		return err
	}
	d := trust.Compare(t.pin.Section, t.section)
	if c.Bool("json") {
		return render.JSON(a.stdout, t.report(d, false))
	}
	if d.Empty() && len(t.reads) == 0 {
		fmt.Fprintf(a.stdout, "%s says what is pinned: %s\n", t.name(), t.digest)
		return nil
	}
	a.showDiff(d)
	a.showReads(t.reads)
	if len(d.Loosening)+len(t.reads) > 0 {
		fmt.Fprintf(a.stderr, "next: %s\n", a.here(t.trustLine()))
	}
	return nil
}

// report returns the JSON object of config diff and config trust, which config show adapts.
func (t trusted) report(d trust.Diff, done bool) map[string]any {
	out := map[string]any{"config": t.file.Path, "pin": t.store.Path, "digest": t.asked(), "trusted": done,
		"tightening": orEmpty(d.Tightening), "loosening": orEmpty(d.Loosening), "inputs": orEmpty(t.reads)}
	if t.pinErr == nil {
		out["pinned"] = map[string]any{"digest": t.pin.Digest, "at": t.pin.At, "how": t.pin.How, "by": t.pin.By, "level": t.pin.Level}
	}
	return out
}

// trustLine returns the command that trusts exactly this version of the file, and of what listed commands read. Half of the digest is enough: nobody can
// make another file with the same half.
func (t trusted) trustLine() string {
	loop := ""
	if t.file.Path != configFile(t.repo) {
		loop = " --loop " + t.file.Loops[0].ID
	}
	return "superloop config trust" + loop + " --digest " + t.asked()[:32]
}

// pinnedBy says when, how and by whom the section was pinned.
func pinnedBy(p trust.Pin) string {
	who := ""
	if p.By != "" {
		who = " by " + render.Clean(p.By)
	}
	how := map[trust.How]string{trust.FirstRun: "by the first run", trust.Trusted: "trusted", trust.Loosened: "loosened at level " + p.Level}[p.How]
	if p.How == trust.FirstRun && who != "" {
		how, who = "by the first run of "+render.Clean(p.By), ""
	}
	return fmt.Sprintf("pinned %s %s%s", p.At.Local().Format(time.DateTime), how, who)
}

// showDiff prints the changes that tighten and those that loosen. It cuts nothing, because an operator decides by them.
func (a *app) showDiff(d trust.Diff) {
	show := func(what string, list []trust.Change) {
		for _, c := range list {
			var value string
			switch {
			case c.From == nil:
				value = "+ " + ascii(c.To)
			case c.To == nil:
				value = "- " + ascii(c.From)
			default:
				value = ascii(c.From) + " -> " + ascii(c.To)
			}
			fmt.Fprintf(a.stdout, "%-9s %s  %s\n          %s\n", what, asciiText(c.Path), value, c.Why)
		}
	}
	show("tightens", d.Tightening)
	show("loosens", d.Loosening)
}

// ascii writes a value as JSON and escapes all that is not printable ASCII, so nothing can hide in it. It cuts nothing.
func ascii(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprintf("%+q", fmt.Sprint(v))
	}
	return asciiText(strings.TrimSuffix(b.String(), "\n"))
}

// asciiText escapes each character that is not printable ASCII as JSON does (\uXXXX).
func asciiText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// configFile returns the path of the repository's configuration.
func configFile(repo string) string { return filepath.Join(repo, ".superloop", "config.json") }

// configPath returns the path of the configuration that a loop has: that of the repository, or the own one of a loop
// that run --prompt made. Without an id, and without a configuration of the repository, it is that of the only loop.
func (a *app) configPath(repo, id string) string {
	path := configFile(repo)
	ids, err := fileLoops(path)
	if id == "" && errors.Is(err, fs.ErrNotExist) {
		if own := ownLoops(repo); len(own) == 1 {
			id = own[0]
		}
	}
	if id != "" && !slices.Contains(ids, id) && slices.Contains(ownLoops(repo), id) {
		return loopFile(repo, id, "config.json")
	}
	return path
}

// config returns the configuration of a loop, or with "" that of the repository; see configPath.
func (a *app) config(repo, id string) (*config.Config, error) {
	return config.Load(a.configPath(repo, id))
}

// configured returns the repository that a verb works on, and the configuration of --loop or of the repository.
func (a *app) configured(c *cli.Context) (string, *config.Config, error) {
	repo, err := a.repo(c)
	if err != nil {
		return "", nil, err
	}
	cfg, err := a.config(repo, c.String("loop"))
	return repo, cfg, err
}

// loopIDs returns the ids of the repository's loops, in the configuration's order, and behind them those of loops that
// run --prompt made. It does not check the rest of the configuration: verbs that only show something must be quick, and
// must work while somebody edits the file.
func (a *app) loopIDs(repo string) ([]string, error) {
	path := configFile(repo)
	ids, err := fileLoops(path)
	own := ownLoops(repo)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(own) > 0:
		return own, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, failf(exitConfig, "superloop init", "there is no %s", path)
	case err != nil:
		return nil, failf(exitConfig, "superloop validate", "%w", err)
	}
	for _, id := range own {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, failf(exitConfig, "superloop validate", "%s has no loops", path)
	}
	return ids, nil
}

// fileLoops returns the ids of the loops in a configuration file. A file that does not exist is fs.ErrNotExist.
func fileLoops(path string) (ids []string, err error) {
	data, err := config.Read(path)
	if err != nil {
		return nil, err
	}
	return config.LoopIDs(path, data)
}

// ownLoops returns the ids of the loops that have a configuration of their own, sorted.
func ownLoops(repo string) (ids []string) {
	entries, err := os.ReadDir(filepath.Join(repo, ".superloop", "loops"))
	if err != nil {
		return nil // there is none before the first run
	}
	for _, e := range entries {
		if info, err := os.Lstat(loopFile(repo, e.Name(), "config.json")); err == nil && info.Mode().IsRegular() {
			ids = append(ids, e.Name())
		}
	}
	return ids
}

func (a *app) validate(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	path := configFile(repo)
	if c.IsSet("config") {
		path = c.String("config")
	}
	cfg, err := config.Load(path)
	var problems, warned []config.Problem
	bad, isBad := errors.AsType[*config.Error](err)
	switch {
	case isBad:
		problems = bad.Problems
	case err != nil:
		return err
	default:
		warned = warnings(cfg)
		ids := loop.Map(cfg.Loops, func(l config.Loop) string { return l.ID })
		warned = append(warned, sharedTree(cfg)...)
		_, unready := a.channels(cfg) // only warnings: the variables may be set where the loops run
		warned = append(warned, unready...)
		warned = append(warned, cfg.CanComplete(repo, ids...)...) // the file is valid; run refuses such a loop
		for _, p := range cfg.Check(repo, lookPath(a.env)) {
			// A program that this machine lacks is only a warning, because the file may be meant for another machine. The
			// verbs run and doctor insist on the program.
			if p.Code == config.CodeNotFound && strings.HasPrefix(p.Pointer, "/runners/") {
				warned = append(warned, p)
			} else {
				problems = append(problems, p)
			}
		}
		lacking, maybe := cfg.CheckCommands(repo, lookPath(a.env))
		problems, warned = append(problems, lacking...), append(warned, maybe...)
	}
	// A wrong entry of the catalog is only a warning, because loops run without it. classify --lint fails on it.
	_, wrong := loadCatalog(c.Context, repo)
	wrong = wrong.Errors()
	if c.Context.Err() != nil {
		return interrupted(c.Context)
	}
	if c.Bool("json") {
		err := render.JSON(a.stdout, map[string]any{"valid": len(problems) == 0, "file": path, "errors": orEmpty(problems), "warnings": orEmpty(warned), "catalog": orEmpty(wrong)})
		if err == nil && len(problems) > 0 {
			return silent(exitConfig)
		}
		return err
	}
	for _, p := range warned {
		fmt.Fprintf(a.stderr, "warning: %s\n", p)
	}
	for _, p := range wrong {
		fmt.Fprintf(a.stderr, "warning: %s; type: %s\n", text.Display(p.String()), a.here("superloop classify --lint"))
	}
	if isBad && bad.Hint() != "superloop validate" {
		return bad
	}
	if len(problems) > 0 {
		return &fault{code: exitConfig, err: &config.Error{Path: path, Problems: problems},
			hint: "docs/config.md explains every key; examples/config.json is complete"}
	}
	_, err = fmt.Fprintf(a.stdout, "%s is valid: %s\n", path, render.Number(len(cfg.Loops), "loop"))
	return err
}

// sharedTree returns a warning if several loops work in the repository's own work tree. One after the other they may.
func sharedTree(cfg *config.Config) []config.Problem {
	var ids []string
	var last int
	for i, l := range cfg.Loops {
		if !l.Git.Worktree {
			ids, last = append(ids, l.ID), i
		}
	}
	if len(ids) < 2 {
		return nil
	}
	return []config.Problem{{Pointer: fmt.Sprintf("/loops/%d/git/worktree", last), Code: config.CodeSuspicious,
		Message: fmt.Sprintf("%s share one work tree: run them one after the other, or give all but one of them git.worktree: true", text.Cut(strings.Join(ids, ", "), 200))}}
}

// orEmpty returns an empty list for nil, so that JSON shows [] and not null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
