package escalation

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
)

// Bounds of what a record holds, in bytes and entries. A question must be asked whatever an agent wrote. So longer
// foreign text is cut in its middle, and says so. The command itself is never cut.
const (
	maxList    = 20       // errors, evidence, hits
	maxLine    = 1 << 10  // one of them
	maxOptions = 8        // options
	maxText    = 4 << 10  // a reason, a note, an option's command
	maxName    = 256      // an operator, a rule, a role
	maxDiff    = 32 << 10 // the difference of the inputs, details
	maxPath    = 4096
	maxRecord  = 4 << 20 // what is read of a record's file; all of the above, escaped, is less
)

// Complete fills in what the asker left open and brings foreign text within its bounds. Open completes every question.
// An asker that needs the digest earlier completes the question itself: doing it twice changes nothing.
func (q Question) Complete(now time.Time) Question {
	if q.ID == "" {
		q.ID = NewID()
	}
	if q.Created.IsZero() {
		q.Created = now
	}
	q.Created = stamp(q.Created)
	if q.Expires.IsZero() {
		q.Expires = q.Created.Add(DefaultPatience)
	}
	q.Expires = stamp(q.Expires)
	q.Reason, q.Rule, q.Manual = cut(q.Reason, maxText), cut(q.Rule, maxName), plain(q.Manual)
	q.Errors, q.Details = cutAll(q.Errors), cut(q.Details, maxDiff)
	q.Options = each(q.Options, maxOptions, func(o Option) Option {
		return Option{cut(o.ID, maxName), cut(o.Label, maxLine), cut(o.Command, maxText)}
	})
	if q.Command == nil {
		return q
	}
	c := *q.Command
	c.Text = slices.Clone(c.Text)
	c.SHA256 = sum(c.Text)
	for _, s := range []*string{&c.Network, &c.Source, &c.Role, &c.Category, &c.Severity, &c.Confidence} {
		*s = cut(*s, maxName)
	}
	for _, s := range []*string{&c.ErrorPattern, &c.RootCause, &c.ExpectedOutcome} {
		*s = cut(*s, maxText)
	}
	c.Evidence, c.GuardDiff = cutAll(c.Evidence), cut(c.GuardDiff, maxDiff)
	c.Hits = each(c.Hits, maxList, func(h Hit) Hit { return Hit{cut(h.Pattern, maxLine), cut(h.Part, maxLine)} })
	if c.Near != nil {
		c.Near = &Near{c.Near.Entry, plain(c.Near.Text)}
	}
	q.Command = &c
	return q
}

// each is a new list of the first most entries, each through f; nil for none.
func each[T any](list []T, most int, f func(T) T) (out []T) {
	for _, x := range list[:min(len(list), most)] {
		out = append(out, f(x))
	}
	return out
}

// check says what makes a question one that cannot be asked.
func (q Question) check() error {
	switch {
	case !isHex(q.ID, 32):
		return fmt.Errorf("its id is %q, not 32 hexadecimal digits", q.ID)
	case !loopID(q.Loop):
		return fmt.Errorf("its loop is %q, which is no loop's id", q.Loop)
	case !storable(q.Run, maxName):
		return errors.New("it does not name its run")
	case q.Iteration < 0:
		return fmt.Errorf("its iteration is %d", q.Iteration)
	case titles[q.Type] == "":
		return fmt.Errorf("its type is %q, which is none", q.Type)
	case !filepath.IsAbs(q.Repo) || !storable(q.Repo, maxPath):
		return fmt.Errorf("its repository is %q, not an absolute path in UTF-8", q.Repo)
	case strings.TrimSpace(q.Reason) == "":
		return errors.New("it gives no reason")
	case q.Created.Year() < 1970 || q.Created.Year() > 9999 || q.Expires.Year() > 9999:
		return errors.New("its times are none")
	case !q.Expires.After(q.Created):
		return errors.New("it expires before it is asked")
	case len(q.Manual) > recovery.MaxEntry:
		return fmt.Errorf("its manual command has %d bytes, at most %d are taken", len(q.Manual), recovery.MaxEntry)
	case q.Type == RecoveryApproval && q.Command == nil:
		return errors.New("it asks for the approval of a command and has none")
	case q.Command == nil:
		return nil
	}
	c := q.Command
	if err := runnable(c.Text); err != nil {
		return err
	}
	switch {
	case c.SHA256 != sum(c.Text):
		return errors.New("the digest of its command is another one's")
	case !storable(c.WorkingDir, maxPath):
		return fmt.Errorf("its working directory is %q", c.WorkingDir)
	case c.TimeoutMS <= 0:
		return errors.New("its command has no timeout")
	case c.Source == "":
		return errors.New("it does not say who proposes the command")
	}
	return nil
}

// runnable says why bytes cannot be a command at all, whoever wants them.
func runnable(command []byte) error {
	switch s := string(command); {
	case len(s) > recovery.MaxEntry:
		return fmt.Errorf("the command has %d bytes; at most %d can be approved", len(s), recovery.MaxEntry)
	case strings.TrimSpace(s) == "":
		return errors.New("the command is blank")
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("the command holds a NUL character, where bash would cut it")
	case !utf8.ValidString(s):
		return errors.New("the command is not UTF-8 text")
	}
	return nil
}

func cutAll(list []string) []string {
	if more := len(list) - maxList + 1; more > 1 {
		list = append(slices.Clone(list[:maxList-1]), fmt.Sprintf("... and %d more", more))
	}
	return each(list, maxList, func(s string) string { return cut(s, maxLine) })
}

// cut is s in at most most bytes: its beginning, how much is missing, its end.
func cut(s string, most int) string {
	if s = plain(s); len(s) <= most {
		return s
	}
	room := most - 40 // the rest is for the note
	head, tail := text.Head(s, room*2/3), text.Tail(s, room-room*2/3)
	return fmt.Sprintf("%s ... (%d bytes are left out) ... %s", head, len(s)-len(head)-len(tail), tail)
}

// plain is s as every reader of JSON can hold it: UTF-8, without NUL.
func plain(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// storable reports whether s is not empty, plain, and has at most most bytes.
func storable(s string, most int) bool { return s != "" && len(s) <= most && plain(s) == s }

// stamp is a time as it stands in a record.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func isHex(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }

// loopID reports whether s is the id of a loop, as the config's schema has it.
func loopID(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return s != "" && len(s) <= 64 && s[0] != '.' && strings.Trim(s, letters+".") == ""
}
