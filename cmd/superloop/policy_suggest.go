package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/permit"
)

func (a *app) policySuggest(c *cli.Context) error {
	switch {
	case c.Bool("live") && (c.Bool("all") || c.Bool("reset")):
		return failf(exitUsage, "superloop policy suggest --live", "--live goes with neither --all nor --reset")
	case c.Bool("live"):
		return a.policySuggestLive(c)
	case c.IsSet("loop") || c.IsSet("since"):
		return failf(exitUsage, "superloop policy suggest --live", "--loop and --since belong to --live")
	}
	repo, paths, err := a.private(c)
	if err != nil {
		return err
	}
	store := learn.Store{Disk: a.disk, Path: paths.Learned()}
	if c.Bool("reset") {
		if err := a.operator(); err != nil {
			return err
		}
		if err := store.Reset(); err != nil {
			return err
		}
		return a.told(c, map[string]any{"reset": true}, "forgotten: which remedies helped in this repository\n")
	}
	m, err := store.Load()
	if err != nil {
		return err
	}
	if c.Bool("all") {
		m.Entries = orEmpty(m.Entries)
		return render.JSON(a.stdout, m)
	}
	cfg, err := a.config(repo, "")
	if err != nil {
		return err
	}
	policy, _ := cfg.Policy("")
	found := m.Suggest(func(command string) bool {
		if policy == nil {
			return false
		}
		_, listed := policy.Listed(command)
		return listed
	})
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"suggestions": orEmpty(found)})
	}
	if len(found) == 0 {
		fmt.Fprintln(a.stdout, "nothing to suggest: no command that is not listed has helped twice")
		return nil
	}
	for _, s := range found {
		entry, err := json.Marshal(s.Command)
		if err != nil {
			return fmt.Errorf("writing a command: %w", err)
		}
		fmt.Fprintf(a.stdout, "%s\n    %s\n", text.Display(string(entry)), s.Why)
	}
	fmt.Fprintln(a.stdout, a.here("next: copy what you want into recovery.auto_approve of .superloop/config.json, then: superloop policy lint"))
	return nil
}

// suggestedLive is the output of policy suggest --live --json.
type suggestedLive struct {
	Suggestions []permit.Suggestion `json:"suggestions"`
	LeftOut     []permit.LeftOut    `json:"left_out"`
	// Permissions is the section of the configuration with the suggestions in it.
	Permissions json.RawMessage `json:"permissions"`
}

// policySuggestLive suggests entries of the section permissions, from what the agents of the loops have asked for.
func (a *app) policySuggestLive(c *cli.Context) error {
	f, cfg, err := a.policies(c)
	if err != nil {
		return err
	}
	_, loops, err := a.chosenLoops(c, false)
	if err != nil {
		return err
	}
	var since time.Time
	if c.IsSet("since") {
		since = time.Now().Add(-c.Duration("since"))
	}
	var past []permit.Past
	for _, p := range loops {
		found, err := a.askedFor(p, f.of(p.id), since)
		if err != nil {
			return err
		}
		past = append(past, found...)
	}
	var out suggestedLive
	list, left := permit.Suggest(cfg.Permissions, past)
	out.Suggestions, out.LeftOut = orEmpty(list), orEmpty(left)
	section := map[string]json.RawMessage{}
	if raw := f.raw("/permissions"); raw != nil {
		_ = text.Decode(raw, &section) // Load has checked it
	}
	for _, s := range list {
		var entries []string
		_ = text.Decode(section[s.List], &entries)
		if section[s.List], err = plainJSON(append(entries, s.Entry), ""); err != nil {
			return err
		}
	}
	if out.Permissions, err = plainJSON(section, "  "); err != nil {
		return err
	}
	return a.write(c, out, func(w io.Writer) { a.printSuggested(w, out, len(past)) })
}

func (a *app) printSuggested(w io.Writer, out suggestedLive, asked int) {
	if asked == 0 {
		fmt.Fprintln(w, a.here("no agent has asked for anything that was not automatic\nnext: set permissions.mode to observe in .superloop/config.json, then: superloop run"))
		return
	}
	last := ""
	for _, s := range out.Suggestions {
		if s.List != last {
			fmt.Fprintln(w, s.List)
			last = s.List
		}
		said := fmt.Sprintf("asked %s", render.Number(s.Asked, "time"))
		if s.Approved > 0 {
			said += fmt.Sprintf(", approved %d", s.Approved)
		}
		if s.Unanswered > 0 {
			said += fmt.Sprintf(", not answered %d", s.Unanswered)
		}
		fmt.Fprintf(w, "  %s   %s", text.Display(s.Entry), said)
		if s.Example != s.Entry {
			fmt.Fprintf(w, ": %s", text.Display(text.Cut(s.Example, 120)))
		}
		fmt.Fprintln(w)
	}
	if len(out.LeftOut) > 0 {
		fmt.Fprintln(w, "left out")
	}
	for _, l := range out.LeftOut {
		fmt.Fprintf(w, "  %s   asked %s: %s\n", text.Display(text.Cut(l.What, 120)), render.Number(l.Asked, "time"), l.Why)
	}
	if len(out.Suggestions) == 0 {
		fmt.Fprintln(w, "nothing to suggest")
		return
	}
	fmt.Fprintln(w, "the section with all of it:")
	fmt.Fprintf(w, "\"permissions\": %s\n", out.Permissions)
	fmt.Fprintln(w, a.here("next: copy what you want into .superloop/config.json, then: superloop validate"))
}

// askedFor reads what the agents of a loop have asked for and what people answered. It leaves out what is older than since.
func (a *app) askedFor(p place, of *recovery.Policy, since time.Time) (past []permit.Past, err error) {
	facts := permit.Facts{Root: effects.RealPath(p.Repo), LoopDir: effects.RealPath(p.Loop), Home: effects.RealPath(a.env("HOME")), Real: effects.RealPath}
	if _, err := os.Lstat(p.OwnTree()); err == nil {
		facts.Root = effects.RealPath(p.OwnTree())
	}
	byDigest, byID := map[string]int{}, map[string]int{}
	err = journal.Read(p.Events(), 0, func(ev journal.Event) error {
		if ev.Timestamp.Before(since) {
			return nil
		}
		var f struct {
			ID       string      `json:"id"`
			Tool     string      `json:"tool"`
			Kind     permit.Kind `json:"kind"`
			Command  string      `json:"command"`
			Dir      string      `json:"dir"`
			Paths    []string    `json:"paths"`
			Host     string      `json:"host"`
			Exact    bool        `json:"exact"`
			Digest   string      `json:"digest"`
			Decision string      `json:"decision"`
		}
		if ev.Event != "permission_asked" && ev.Event != "permission_answered" || text.Decode(ev.Fields, &f) != nil {
			return nil
		}
		if ev.Event == "permission_answered" {
			i, known := byID[f.ID]
			switch {
			case !known:
			case f.Decision == "approved" || f.Decision == "granted":
				past[i].Approved++
			case f.Decision == "rejected":
				past[i].Refused++
			case f.Decision == "wait_over":
				past[i].Unanswered++
			}
			return nil
		}
		i, known := byDigest[f.Digest]
		if !known {
			i = len(past)
			words := strings.Join(slices.Concat([]string{f.Command, f.Host, f.Tool, f.Dir}, f.Paths), "\x00")
			past = append(past, permit.Past{Facts: facts, Of: of, Whole: len(f.Command) < effects.MaxRecorded-utf8Max && !strings.Contains(words, redact.Mark),
				Request: permit.Request{Kind: f.Kind, Tool: f.Tool, Command: f.Command, Dir: f.Dir, Paths: f.Paths, Host: f.Host, Exact: f.Exact}})
			byDigest[f.Digest] = i
		}
		past[i].Asked++
		byID[f.ID] = i
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the loop has not run yet
	}
	if err != nil {
		return nil, failf(exitFailed, "superloop events --verify --loop "+p.id, "reading what the agents of %s asked for: %w", p.id, err)
	}
	return past, nil
}

// utf8Max is the length of the longest character: a text that was cut may be so much shorter than its bound.
const utf8Max = 4

// plainJSON writes JSON without the escapes that only HTML needs.
func plainJSON(v any, indent string) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
