package main

import (
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop/layout"
)

// inboxItem is one question in the output of inbox --json.
type inboxItem struct {
	Loop    string `json:"loop_id"`
	Repo    string `json:"repo"`
	ID      string `json:"id"`
	Digest  string `json:"digest"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Command string `json:"command,omitempty"`
	// These are of a command: what it is about, how bad that is, how sure its proposer is, and what supports it.
	Category   string   `json:"category,omitempty"`
	Severity   string   `json:"severity,omitempty"`
	Confidence string   `json:"confidence,omitempty"`
	RootCause  string   `json:"root_cause,omitempty"`
	Evidence   []string `json:"evidence,omitempty"`

	Errors  []string           `json:"errors,omitempty"`
	Details string             `json:"details,omitempty"`
	Manual  string             `json:"manual,omitempty"` // of a question without a command: what repairs it, to be typed by hand
	Since   time.Time          `json:"since"`
	Waiting int64              `json:"waiting_ms"`
	Hold    *escalation.Hold   `json:"hold,omitempty"` // what an agent is held for until it is answered
	Blocks  bool               `json:"blocks"`
	Lapsed  bool               `json:"lapsed,omitempty"`
	Actions escalation.Actions `json:"actions"`
	Ways    []escalation.Way   `json:"ways"`
}

// Kinds says the three words about a command in one line.
func (i inboxItem) Kinds() string { return escalation.Kinds(i.Category, i.Severity, i.Confidence) }

// endedItem is one loop that has ended and has not run since, in the output of inbox --json.
type endedItem struct {
	escalation.Ended
	New bool  `json:"new"` // the inbox was not looked at since it ended
	Ago int64 `json:"ago_ms"`
}

// inboxShows bounds how many loops that ended before the last look the inbox shows with --all.
const inboxShows = 50

func (a *app) inbox(c *cli.Context) error {
	root, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	if err != nil {
		return err
	}
	now := time.Now()
	items, damaged := escalation.Inbox(root, now)
	list := []inboxItem{}
	for _, it := range items {
		q := it.Record.Question
		x := inboxItem{Loop: q.Loop, Repo: q.Repo, ID: q.ID, Digest: it.Record.Digest, Type: string(q.Type), Reason: q.Reason,
			Since: q.Created, Waiting: it.Waiting.Milliseconds(), Blocks: q.Blocking(), Hold: it.Record.Hold(now), Lapsed: it.Lapsed, Actions: it.Record.Actions(), Ways: it.Record.Ways()}
		if q.Command != nil {
			x.Command, x.Category, x.Severity, x.Confidence = string(q.Command.Text), q.Command.Category, q.Command.Severity, q.Command.Confidence
			x.RootCause, x.Evidence = q.Command.RootCause, q.Command.Evidence
		} else { // approve-recovery shows them for a command; for other questions only inbox does
			x.Errors, x.Details, x.Manual = q.Errors, q.Details, it.Record.Actions().Manual
		}
		list = append(list, x)
	}
	ends, unread := escalation.AllEnded(root)
	seen := escalation.Seen(root)
	ended := []endedItem{}
	for _, e := range ends {
		x := endedItem{e, e.At.After(seen), max(0, now.Sub(e.At)).Milliseconds()}
		if x.New || (c.Bool("all") || c.Bool("json")) && len(ended) < inboxShows {
			ended = append(ended, x)
		}
	}
	if err := a.report(c, map[string]any{"waiting": list, "ended": ended}, "inbox", map[string]any{"Waiting": list, "Ended": ended}); err != nil {
		return err
	}
	if err := errors.Join(damaged, unread); err != nil {
		return failf(exitFailed, "superloop status", "a record cannot be read: %w", err)
	}
	if c.Bool("json") || len(ended) == 0 || a.operator() != nil {
		return nil // a program, or an agent, has looked
	}
	return escalation.See(a.disk, root, now)
}
