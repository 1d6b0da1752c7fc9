// Package tracker reads the items of a tracker (issues of GitHub or GitLab, Linear, beads) of which the daemon makes
// loops, and tells the tracker what became of them. What a tracker shows is a mirror: who has an item is decided
// elsewhere.
//
// The text of an item is anybody's. Only people who may label items make one of them a task, by a label. A text that was
// changed after the label was set is held, as far as the tracker tells when.
//
// No function tries again or waits. An *Unavailable says that the caller may try later; every other error stays until
// somebody does something, and says what to type.
package tracker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/forge"
)

// Mark is the label of the items that become loops, unless the operator names another one.
const Mark = "superloop"

// Item is one thing to be built.
type Item struct {
	// ID names the item in its tracker for good: "17", "ENG-12", "bd-a1b2". It has at most 64 letters, digits, dots and
	// hyphens, and begins and ends with a letter or a digit.
	ID               string
	Title, Body, URL string
	// Held says why the item is not to be begun now; "" if nothing is in the way. List may know less than Get.
	Held   string
	After  []string // ids of open items that have to be closed before, as far as the tracker tells; then it is Held, too
	Closed bool     // only Get returns such items
	// Closes is the line of a pull request that closes the item when it is merged; "" if the tracker reads none.
	Closes string
}

// maxSpec bounds a spec, in bytes.
const maxSpec = 1 << 20

// Spec returns the item as a Markdown file of at most 1 MiB, without control characters and invisible ones.
func (it Item) Spec() []byte {
	title := text.Line(it.Title, 300)
	if title == "" {
		title = it.ID
	}
	end := "\n\n---\n\nItem " + it.ID
	if it.URL != "" {
		end += ", " + text.Line(it.URL, 500)
	}
	end += "\n"
	head := "# " + title + "\n\n"
	body := strings.TrimSpace(text.Plain(text.Head(it.Body, maxSpec)))
	return []byte(head + text.Head(body, maxSpec-len(head)-len(end)) + end)
}

var itemID = pattern.Lazy(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$`)

// ValidID reports whether a text may be the ID of an item. It then is no flag, no path, and a name in a ref of git.
func ValidID(id string) bool {
	return itemID().MatchString(id) && !strings.Contains(id, "..") && !strings.HasSuffix(id, ".lock")
}

// State is what became of an item.
type State string

// The states, each of which is a label but the last.
const (
	Taken     State = "taken"     // a loop works on it
	Delivered State = "delivered" // the work waits to be taken
	Failed    State = "failed"    // a loop has ended without the work
	Released  State = "released"  // nobody works on it
)

var states = []State{Taken, Delivered, Failed}

// label returns the label of a state, and "" for Released.
func (s State) label() string {
	if s == Released {
		return ""
	}
	return "superloop-" + string(s)
}

// isStateLabel reports whether a label is that of some state.
func isStateLabel(name string) bool {
	for _, s := range states {
		if strings.EqualFold(name, s.label()) {
			return true
		}
	}
	return false
}

// Report is what a tracker is told of an item. Text is Markdown that mentions nobody and closes nothing; the caller sees
// to it. Without Text and URL there is no comment.
type Report struct {
	State State
	Text  string
	URL   string
}

// maxComment bounds a comment, in bytes. GitHub takes 65,536 characters.
const maxComment = 60_000

// sum identifies a report about an item: 32 hexadecimal digits.
func (r Report) sum(id string) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", id, r.State, r.Text, r.URL))
	return hex.EncodeToString(h[:16])
}

// marker is a comment of HTML that nobody sees and that tells a report from others.
func (r Report) marker(id string) string { return "<!-- superloop report " + r.sum(id) + " -->" }

// comment returns what is written below an item, and "" if there is nothing to write.
func (r Report) comment() string {
	body := strings.TrimSpace(text.Plain(text.Head(r.Text, maxComment)))
	if u := text.Line(r.URL, 500); u != "" {
		body = strings.TrimSpace(body + "\n\n" + u)
	}
	return body
}

// Tracker is a source of items. Each call takes some minutes at most.
type Tracker interface {
	// List returns the open items with the mark, the oldest first: all of them, or the first 5,000. What changes while it
	// reads may be missing.
	List(ctx context.Context) ([]Item, error)
	// Get returns one item, also one that is closed or has no mark (any more), which is Held. It knows all that the tracker
	// tells, and is asked before an item is begun. The error is an ErrNotFound if there is no such item.
	Get(ctx context.Context, id string) (Item, error)
	// Tell shows in the tracker what became of an item: by the label of the state, of which an item has one at most, and by
	// a comment. Telling the same once more changes nothing.
	Tell(ctx context.Context, id string, r Report) error
}

// Unavailable says that a tracker does not answer now.
type Unavailable = forge.Unavailable

// ErrNotFound says that there is no such item, or that the operator may not see it.
var ErrNotFound = forge.ErrNotFound

// mostItems bounds what List returns.
const mostItems = 5000

// badID is the error for an ID that cannot be one.
func badID(id string) error {
	return fmt.Errorf("%q is no id of an item: %w", text.Line(id, 80), ErrNotFound)
}

// reasons for Held.
const (
	heldMark    = "it does not bear the label "
	heldEdited  = "its text was changed after the label was set; set the label again"
	heldWhen    = "the tracker does not tell when the label was set; set the label again"
	heldClosed  = "it is closed"
	heldBlocked = "blocked by "
)

// edited says why a text is held: the last change of it is not older than the label. Times have whole seconds, so equal
// ones may be either.
func edited(marked, changed time.Time) string {
	switch {
	case marked.IsZero():
		return heldWhen
	case !changed.Before(marked):
		return heldEdited
	}
	return ""
}
