package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/server/forge"
)

// Beads are the issues of a repository in beads. Label is the mark. Agents of the repository can write them, so an item is
// whoever's can write there, and bd runs as a command of an agent does: see Confined.
type Beads struct {
	// BD runs bd with arguments and returns its stdout. An error is an *Unavailable, an *forge.Error or that of the context.
	BD    func(ctx context.Context, args ...string) ([]byte, error)
	Label string
}

var _ Tracker = Beads{}

// Confinement is what bd needs to run: where, with what of the operator's environment, and what it may not see.
type Confinement struct {
	Spawner sandbox.Spawner
	Repo    string
	Env     []string // of the operator; what may hold a secret is left out
	Tmp     string   // where a directory for temporary files is made
	Hidden  []string // the private state
	Ports   []uint16 // of the daemon
}

// Bounds of one run of bd.
const (
	beadsTime  = time.Minute
	beadsBytes = 16 << 20
	beadsText  = 20_000 // bytes of a comment: it is an argument
)

// Confined returns a function that runs bd in the repository, where an agent can have written its database, its
// configuration and its hooks. So it runs as a command of an agent does: without secrets, without sight of the private
// state, and it writes in the repository only. Where the system cannot hide the private state, bd does not run.
func Confined(c Confinement) func(ctx context.Context, args ...string) ([]byte, error) {
	return func(ctx context.Context, args ...string) (out []byte, err error) {
		next := "cd " + text.Paste(c.Repo) + " && bd list"
		place, err := sandbox.Resolve(c.Repo, "")
		if err != nil {
			return nil, &forge.Error{Err: err, Next: next}
		}
		tmp, remove, err := sandbox.NewTmp(c.Tmp)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, remove()) }()
		res, err := sandbox.Run(ctx, c.Spawner, sandbox.Spec{
			Command: text.Words(append([]string{"bd"}, args...)), Place: place, Env: sandbox.Environment(c.Env, nil, c.Repo, tmp), Writable: []string{tmp},
			Protected: sandbox.Protected(c.Repo), Hidden: c.Hidden, Ports: c.Ports, Required: sandbox.Mount,
			Timeout: beadsTime, Grace: time.Second, OutputLimit: beadsBytes, Keep: beadsBytes, Secrets: sandbox.Secrets(c.Env),
		})
		said := fmt.Errorf("bd %s: %s", args[0], text.Line(res.Stderr.Text()+" "+res.Signal, 300))
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, &forge.Error{Err: fmt.Errorf("bd %s: %w", args[0], err), Next: "superloop doctor --repo " + text.Paste(c.Repo)}
		case res.Code == 127:
			return nil, &forge.Error{Err: said, Next: "install bd (https://github.com/gastownhall/beads), then: " + next}
		case res.Ended == sandbox.OutputLimit:
			return nil, &forge.Error{Err: fmt.Errorf("bd %s printed more than %d MiB", args[0], beadsBytes>>20), Next: next}
		case res.Ended != proc.Exited:
			return nil, &Unavailable{Err: fmt.Errorf("bd %s: %s", args[0], res.Ended)}
		case res.Code != 0 && strings.Contains(strings.ToLower(said.Error()), "not found"):
			return nil, &forge.Error{Err: fmt.Errorf("%w: %w", said, ErrNotFound), Next: next}
		case res.Code != 0:
			return nil, &forge.Error{Err: said, Next: next}
		}
		return []byte(res.Stdout.Text()), nil
	}
}

// bead is an issue as bd list and bd show print it.
type bead struct {
	ID           string    `json:"id"`
	Title        string    `json:"title"`
	Description  string    `json:"description"`
	Design       string    `json:"design"`
	Acceptance   string    `json:"acceptance_criteria"`
	Status       string    `json:"status"`
	Labels       []string  `json:"labels"`
	CreatedAt    time.Time `json:"created_at"`
	Dependencies []struct {
		On    string `json:"depends_on_id"`
		Type  string `json:"type"`
		ID    string `json:"id"` // bd show prints the whole issue instead
		Type2 string `json:"dependency_type"`
	} `json:"dependencies"`
}

type beadComment struct {
	Text string `json:"text"`
}

// decodeBeads reads what bd prints: a list, an object that holds one in items, or one issue.
func decodeBeads(out []byte) (list []bead, err error) {
	if err := text.Decode(out, &list); err == nil {
		return list, nil
	}
	var envelope struct{ Items *[]bead }
	if err := text.Decode(out, &envelope); err != nil {
		return nil, err
	}
	if envelope.Items != nil {
		return *envelope.Items, nil
	}
	var one bead
	err = text.Decode(out, &one)
	return []bead{one}, err
}

func (b Beads) read(ctx context.Context, args ...string) ([]bead, error) {
	out, err := b.BD(ctx, args...)
	if err != nil {
		return nil, err
	}
	list, err := decodeBeads(out)
	if err != nil {
		return nil, &Unavailable{Err: fmt.Errorf("bd %s printed no issues: %w", args[0], err)}
	}
	return list, nil
}

// List implements Tracker. It runs bd list and bd ready.
func (b Beads) List(ctx context.Context) ([]Item, error) {
	open, err := b.read(ctx, "list", "--json", "--limit", "0")
	if err != nil {
		return nil, err
	}
	ready, err := b.read(ctx, "ready", "--json", "--limit", "0")
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(open, func(x, y bead) int { return x.CreatedAt.Compare(y.CreatedAt) })
	isOpen, isReady := ids(open), ids(ready)
	var list []Item
	for _, x := range open {
		if x.Status != "closed" && ValidID(x.ID) && slices.Contains(x.Labels, b.Label) && len(list) < mostItems {
			list = append(list, b.item(x, isOpen, isReady[x.ID]))
		}
	}
	return list, nil
}

func ids(list []bead) map[string]bool {
	m := map[string]bool{}
	for _, x := range list {
		m[x.ID] = true
	}
	return m
}

func (b Beads) item(x bead, open map[string]bool, ready bool) Item {
	it := Item{ID: x.ID, Title: x.Title, Body: x.Description, Closed: x.Status == "closed"}
	for _, part := range []struct{ name, text string }{{"Design", x.Design}, {"Acceptance criteria", x.Acceptance}} {
		if strings.TrimSpace(part.text) != "" {
			it.Body += "\n\n## " + part.name + "\n\n" + part.text
		}
	}
	for _, d := range x.Dependencies {
		if d.Type+d.Type2 == "blocks" && open[d.On] && ValidID(d.On) {
			it.After = append(it.After, d.On)
		}
	}
	taken := slices.Contains(x.Labels, Taken.label())
	switch {
	case it.Closed:
		it.Held = heldClosed
	case !slices.Contains(x.Labels, b.Label):
		it.Held = heldMark + text.Line(b.Label, 100)
	case len(it.After) > 0:
		it.Held = heldBlocked + strings.Join(it.After, ", ")
	case x.Status != "open" && !taken:
		it.Held = "its status is " + text.Line(x.Status, 40)
	case !ready && !taken:
		it.Held = "bd ready does not show it"
	}
	return it
}

// Get implements Tracker.
func (b Beads) Get(ctx context.Context, id string) (Item, error) {
	x, err := b.show(ctx, id)
	if err != nil || x.Status == "closed" || !slices.Contains(x.Labels, b.Label) {
		return b.item(x, nil, true), err
	}
	list, err := b.List(ctx)
	if err != nil {
		return Item{}, err
	}
	for _, it := range list {
		if it.ID == id {
			return it, nil
		}
	}
	return Item{}, fmt.Errorf("issue %s: %w", id, ErrNotFound) // closed meanwhile
}

func (b Beads) show(ctx context.Context, id string) (bead, error) {
	if !ValidID(id) {
		return bead{}, badID(id)
	}
	list, err := b.read(ctx, "show", id, "--json")
	if err == nil && (len(list) != 1 || list[0].ID != id) { // bd also takes a part of an id
		err = fmt.Errorf("issue %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return bead{}, err
	}
	return list[0], nil
}

// Tell implements Tracker. The status of an issue follows: in_progress for Taken and Delivered, and else open, so that bd
// ready shows to others what they can begin.
func (b Beads) Tell(ctx context.Context, id string, r Report) error {
	x, err := b.show(ctx, id)
	if err != nil {
		return err
	}
	run := func(args ...string) {
		if err == nil {
			_, err = b.BD(ctx, args...)
		}
	}
	if body := text.Head(r.comment(), beadsText); body != "" {
		out, err := b.BD(ctx, "comments", id, "--json")
		if err != nil {
			return err
		}
		comments, err := decodeComments(out)
		if err != nil {
			return &Unavailable{Err: fmt.Errorf("bd comments printed no comments: %w", err)}
		}
		if !slices.ContainsFunc(comments, func(c beadComment) bool { return strings.Contains(c.Text, r.marker(id)) }) {
			run("comments", "add", id, "superloop: "+body+"\n\n"+r.marker(id))
		}
	}
	want, status := r.State.label(), "open"
	if r.State == Taken || r.State == Delivered {
		status = "in_progress"
	}
	for _, s := range states {
		if l := s.label(); l != want && slices.Contains(x.Labels, l) {
			run("label", "remove", id, l)
		}
	}
	if want != "" && !slices.Contains(x.Labels, want) {
		run("label", "add", id, want)
	}
	if x.Status != status && x.Status != "closed" {
		run("update", id, "--status", status)
	}
	return err
}

// decodeComments reads what bd comments prints: a list, or an object that holds one in items.
func decodeComments(out []byte) (list []beadComment, err error) {
	if err := text.Decode(out, &list); err == nil {
		return list, nil
	}
	var envelope struct{ Items json.RawMessage }
	if err = text.Decode(out, &envelope); err == nil && len(envelope.Items) > 0 {
		err = text.Decode(envelope.Items, &list)
	}
	return list, err
}
