package escalation

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/recovery"
)

// Bounds of what a record holds, in bytes and entries. A question must be asked
// whatever an agent wrote, so foreign text that is longer is cut, in its middle,
// and says so; the command itself never is.
const (
	maxList    = 20       // errors, evidence, touched paths, hits
	maxLine    = 1 << 10  // one of them
	maxOptions = 8        // ways on
	maxText    = 4 << 10  // a reason, a note, an option's command
	maxName    = 256      // a person, a rule, a role
	maxDiff    = 32 << 10 // guard's diff, details
	maxPath    = 4096
	maxRecord  = 4 << 20 // what is read of a record's file; all of the above, escaped, is less
)

// Complete fills in what the asker left open and brings foreign text within its
// bounds. Open does so with every question: an asker that notes the digest down
// before that completes the question itself, since doing it twice changes nothing.
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
	q.Reason, q.Rule, q.Chain, q.Manual = cut(q.Reason, maxText), cut(q.Rule, maxName), cut(q.Chain, maxName), plain(q.Manual)
	q.Errors, q.Details = cutAll(q.Errors), cut(q.Details, maxDiff)
	options := q.Options
	q.Options = nil
	for _, o := range options[:min(len(options), maxOptions)] {
		q.Options = append(q.Options, Option{cut(o.ID, maxName), cut(o.Label, maxLine), cut(o.Command, maxText)})
	}
	if q.Command != nil {
		c := *q.Command
		c.Text = append([]byte(nil), c.Text...)
		c.SHA256 = sum(c.Text)
		for _, s := range []*string{&c.Network, &c.EnvProfile, &c.Source, &c.Role, &c.Category, &c.Severity, &c.Confidence} {
			*s = cut(*s, maxName)
		}
		for _, s := range []*string{&c.ErrorPattern, &c.RootCause, &c.ExpectedOutcome} {
			*s = cut(*s, maxText)
		}
		c.Evidence, c.Touches = cutAll(c.Evidence), cutAll(c.Touches)
		c.GuardDiff = cut(c.GuardDiff, maxDiff)
		hits := c.Hits
		c.Hits = nil
		for _, h := range hits[:min(len(hits), maxList)] {
			c.Hits = append(c.Hits, Hit{cut(h.Pattern, maxLine), cut(h.Part, maxLine)})
		}
		if c.Near != nil {
			c.Near = &Near{c.Near.Entry, plain(c.Near.Text)}
		}
		q.Command = &c
	}
	return q
}

// check says what makes a question one that cannot be asked.
func (q Question) check() error {
	switch {
	case !isHex(q.ID, 32):
		return fmt.Errorf("its id is %q, not 32 hexadecimal digits", q.ID)
	case !loopID(q.Loop):
		return fmt.Errorf("its loop is %q, which is no loop's id", q.Loop)
	case q.Run == "" || len(q.Run) > maxName || !utf8.ValidString(q.Run) || strings.IndexByte(q.Run, 0) >= 0:
		return errors.New("it does not name its run")
	case q.Iteration < 0:
		return fmt.Errorf("its iteration is %d", q.Iteration)
	case !q.Type.Known():
		return fmt.Errorf("its type is %q, which is none", q.Type)
	case !filepath.IsAbs(q.Repo) || !utf8.ValidString(q.Repo) || len(q.Repo) > maxPath || strings.IndexByte(q.Repo, 0) >= 0:
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
	case q.Command != nil:
		return q.Command.check()
	}
	return nil
}

func (c *Command) check() error {
	if err := runnable(c.Text); err != nil {
		return err
	}
	switch {
	case c.SHA256 != sum(c.Text):
		return errors.New("the digest of its command is another one's")
	case c.WorkingDir == "" || len(c.WorkingDir) > maxPath || !utf8.ValidString(c.WorkingDir) || strings.IndexByte(c.WorkingDir, 0) >= 0:
		return fmt.Errorf("its working directory is %q", c.WorkingDir)
	case c.TimeoutMS <= 0:
		return errors.New("its command has no timeout")
	case c.Source == "":
		return errors.New("it does not say who proposes the command")
	}
	return nil
}

// runnable says why bytes cannot be a command at all, whoever wants them.
func runnable(text []byte) error {
	switch s := string(text); {
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
	var out []string
	for i, s := range list {
		if i == maxList-1 && len(list) > maxList {
			return append(out, fmt.Sprintf("... and %d more", len(list)-i))
		}
		out = append(out, cut(s, maxLine))
	}
	return out
}

// cut is text of at most most bytes: its beginning, how much is missing, its end.
func cut(s string, most int) string {
	s = plain(s)
	if len(s) <= most {
		return s
	}
	const note = 40 // room for the note
	head := (most - note) * 2 / 3
	tail := most - note - head
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail > 0 && !utf8.RuneStart(s[len(s)-tail]) {
		tail--
	}
	return fmt.Sprintf("%s ... (%d bytes are left out) ... %s", s[:head], len(s)-head-tail, s[len(s)-tail:])
}

// plain is s as every reader of JSON can hold it: UTF-8, without NUL.
func plain(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// stamp is a time as it stands in a record.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// loopID reports whether s is the id of a loop, as the config's schema has it.
func loopID(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return s != "" && len(s) <= 64 && s[0] != '.' && strings.Trim(s, letters+".") == ""
}
