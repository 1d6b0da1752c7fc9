package worktree

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Committed is a commit of the current branch.
type Committed struct {
	SHA     string
	At      time.Time // of the commit, not of its author
	Subject string
	Files   []string // paths that it changed, relative to Top, as git names them
}

// Recent lists the commits of HEAD since a time, the newest first, at most n. A
// repository without a commit has none.
func (r *Repo) Recent(ctx context.Context, since time.Time, n int) ([]Committed, error) {
	if head, err := r.Head(ctx); err != nil || head == "" {
		return nil, err
	}
	args := []string{"-c", "log.showSignature=false", "log", "-z", "--no-color", "--no-renames", "--name-only", "--no-decorate",
		"--max-count=" + strconv.Itoa(n), "--format=%x01%H%x02%ct%x02%s%x03"}
	if !since.IsZero() {
		args = append(args, "--since="+since.UTC().Format(time.RFC3339))
	}
	out, err := r.read(ctx, append(args, "HEAD", "--")...)
	if err != nil {
		return nil, fmt.Errorf("reading the last commits: %w", err)
	}
	var all []Committed
	for _, part := range strings.Split(string(out), "\x01")[1:] {
		head, files, _ := strings.Cut(part, "\x03")
		words := strings.SplitN(head, "\x02", 3)
		if len(words) < 3 {
			return nil, fmt.Errorf("reading the last commits: git log printed %q", head)
		}
		at, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the last commits: git log printed the time %q", words[1])
		}
		c := Committed{SHA: words[0], At: time.Unix(at, 0).UTC(), Subject: words[2]}
		c.Files = strings.FieldsFunc(files, func(r rune) bool { return r == 0 || r == '\n' })
		all = append(all, c)
	}
	return all, nil
}
