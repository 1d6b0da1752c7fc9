package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// State is what became of a pull request.
type State string

// The states of a pull request. None says that the branch has none.
const (
	None   State = ""
	Open   State = "open"
	Merged State = "merged"
	Closed State = "closed" // and not merged
)

// Kind is what an Entry is.
type Kind string

// The kinds of entries.
const (
	FailedCheck      Kind = "check"   // of the newest commit
	ChangesRequested Kind = "changes" // a review that still asks for changes
	Commented        Kind = "comment" // below the pull request, with a review, or in the files and not resolved
)

// Entry is one thing to react to. What it says is foreign text.
type Entry struct {
	ID    string    // does not change; a check that runs again has another one
	At    time.Time // when it was written, or changed
	Kind  Kind
	By    string // who wrote it; "" for a check
	Where string // the check, or the file and the line; "" for a comment on the whole
	URL   string
	Text  string // at most 8 KiB
}

// Feedback is what came of a pull request. Its entries are by people who may write to the repository, and by checks: no
// bots, nothing that superloop has written, nothing of anybody else. They stand in the order of their times.
type Feedback struct {
	Pull    Pull
	State   State
	Head    string // the newest commit
	Pending int    // checks that have not ended
	Passed  int
	Entries []Entry
}

// Bounds of what is read and shown.
const (
	maxEntry    = 8 << 10
	maxMarkdown = 64 << 10
	mostLogs    = 3
	mostPage    = 100
)

// Own begins every marker by which superloop knows what it has written itself.
const Own = "<!-- superloop "

// Feedback returns what came of the newest pull request of a branch of the repository itself. Of a pull request with more
// than 100 comments, reviews or checks it sees the newest.
func (c Client) Feedback(ctx context.Context, branch string) (Feedback, error) {
	var list []answer
	call := c.Forge.FindCall(branch)
	call.Path = strings.NewReplacer("state=opened", "state=all", "state=open", "state=all").Replace(call.Path)
	if _, err := c.Do(ctx, call, &list); err != nil {
		return Feedback{}, err
	}
	list = slices.DeleteFunc(list, func(a answer) bool { return a.From != a.Project })
	if len(list) == 0 {
		return Feedback{}, nil
	}
	newest := slices.MaxFunc(list, func(a, b answer) int { return cmp.Compare(a.pull().Number, b.pull().Number) })
	f := Feedback{Pull: newest.pull(), State: Open}
	switch {
	case newest.Merged != "":
		f.State = Merged
	case newest.State == "closed":
		f.State = Closed
	}
	read := c.readGitHub
	if c.Forge.Program == Glab {
		read = c.readGitLab
	}
	err := read(ctx, &f)
	for i := range f.Entries {
		e := &f.Entries[i]
		e.Text = strings.TrimSpace(text.Plain(text.Head(e.Text, maxEntry)))
		e.By, e.Where, e.URL = text.Line(e.By, 100), text.Line(e.Where, 200), text.Line(e.URL, 500)
	}
	slices.SortStableFunc(f.Entries, func(a, b Entry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return f, err
}

// Markdown returns entries as text for a prompt, of at most 64 KiB. What others wrote is quoted. The newest entries are
// kept if there are too many.
func Markdown(list []Entry) string {
	var parts []string
	size := 0
	for _, e := range slices.Backward(list) {
		part := e.markdown()
		if size += len(part); size > maxMarkdown-100 {
			parts = append(parts, fmt.Sprintf("(%d older entries are left out.)\n", len(list)-len(parts)))
			break
		}
		parts = append(parts, part)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "\n")
}

func (e Entry) markdown() string {
	var b strings.Builder
	switch where := quoted(e.Where); {
	case e.Kind == FailedCheck:
		fmt.Fprintf(&b, "The check %s failed", where)
	case e.Kind == ChangesRequested:
		fmt.Fprintf(&b, "%s asks for changes", quoted(e.By))
	case e.Where != "":
		fmt.Fprintf(&b, "%s writes about %s", quoted(e.By), where)
	default:
		fmt.Fprintf(&b, "%s writes", quoted(e.By))
	}
	if e.URL != "" {
		b.WriteString(" (" + quoted(e.URL) + ")")
	}
	b.WriteString(":\n")
	if e.Text == "" {
		return strings.TrimSuffix(b.String(), ":\n") + ".\n"
	}
	b.WriteByte('\n')
	for line := range strings.SplitSeq(e.Text, "\n") {
		b.WriteString(strings.TrimRight("> "+line, " ") + "\n")
	}
	return b.String()
}

// quoted returns a short foreign text as code.
func quoted(s string) string { return "`" + strings.ReplaceAll(s, "`", "'") + "`" }

// logTail returns the end of the log of a failed job, and "" if there is none to be had.
func (c Client) logTail(ctx context.Context, path string) (string, error) {
	call := Call{Method: "GET", Path: c.Forge.Root() + path}
	r, err := c.Doer.Do(ctx, call)
	var refused *Error
	if errors.As(err, &refused) { // more than a call may answer
		return "", nil
	}
	if err != nil || r.Status != 200 {
		return "", err
	}
	return text.Tail(strings.TrimSpace(text.Plain(text.Uncoloured(text.Tail(string(r.Body), 4*maxEntry)))), maxEntry/2), nil
}

// line names a place in a file.
func line(path string, n int) string {
	if n > 0 {
		return fmt.Sprintf("%s:%d", path, n)
	}
	return path
}
