package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

// Reasons in CommitResult.Skipped for which Commit made no commit.
const (
	SkippedNoChanges        = "no_changes"
	SkippedAlreadyCommitted = "already_committed"
)

var (
	// ErrBusy means that the repository is in a merge, a rebase or a conflict, or that another git holds its index.
	ErrBusy = errors.New("the repository is busy")
	// ErrLocked is the ErrBusy that passes by itself, unless the other git was killed.
	ErrLocked = fmt.Errorf("%w: another git holds its index", ErrBusy)
	// ErrIdentity means that git does not know the author of the commit.
	ErrIdentity = errors.New("git does not know the author")
)

const (
	defaultSubject = 72
	maxBody        = 64 << 10 // bytes
	// scissors, after the comment character, ends the message where git cleans it up, as in git rebase.
	scissors = " ------------------------ >8 ------------------------"
)

// CommitRequest describes the work of one iteration that Commit is to commit. Subject and Body may come from an agent.
type CommitRequest struct {
	LoopID    string
	RunID     string
	Iteration int
	Strategy  string // per_iteration (also if empty) or on_test_pass
	Subject   string // if empty, the subject names the loop and the iteration
	Body      string
	// Exclude lists paths that are not this loop's work: see Unchanged. They stay as they are, staged or not.
	Exclude    []string
	MaxSubject int // bounds the subject, in characters; 0 means 72
	// Record gets the id of the commit before a branch leads to it; if it fails, no branch does. Made is the id that an
	// earlier call for the same work has recorded, or "". superloop knows its commits by this record, never by their
	// messages, which an agent can write, too.
	Record func(sha string) error
	Made   string
}

// CommitResult is the result of Commit. SHA is the commit that holds the work, or "" if nothing was changed.
type CommitResult struct {
	SHA     string
	Subject string
	Skipped string   // "", SkippedNoChanges, SkippedAlreadyCommitted
	Paths   []string // the paths that were committed
	// Left lists changed files that were not committed, because an attribute names a filter for them (git-lfs,
	// git-crypt). superloop runs no filter, and without one their content would be stored where a pointer or a cipher
	// belongs.
	Left []string
}

// Commit commits every changed, deleted or untracked file of the work tree, except for those under .superloop, the
// excluded ones, those with a filter, and large files that consist of holes. Excluded paths that an operator had staged
// stay staged. No hook runs and nothing is signed: an agent can write hooks and the settings of signatures. If the
// commit fails, the index is as it was before. A commit that is made survives a power cut.
//
// Commit may be repeated after a crash: if HEAD contains the commit Made, it returns that commit.
func (r *Repo) Commit(ctx context.Context, q CommitRequest) (CommitResult, error) {
	if made, err := r.contains(ctx, q.Made); err != nil || made {
		return r.finish(ctx, q, err)
	}
	if err := r.free(); err != nil {
		return CommitResult{}, err
	}
	base := r.startBase(ctx)
	defer func() { base().done() }()
	_, changes, err := r.changes(ctx, false)
	if err != nil {
		return CommitResult{}, err
	}
	paths, err := toCommit(changes, append(r.holes(changes), q.Exclude...))
	if err != nil {
		return CommitResult{}, err
	}
	paths, left, err := r.plain(ctx, paths)
	if err != nil {
		return CommitResult{}, err
	}
	message, subject := q.message()
	sha := ""
	if len(paths) > 0 {
		sha, err = r.commitPaths(ctx, q, message, base(), paths)
		if errors.Is(err, ErrIdentity) && r.git.Refresh(ctx) == nil { // an operator may have told git a name meanwhile
			sha, err = r.commitPaths(ctx, q, message, r.startBase(ctx)(), paths)
		}
		if err != nil {
			return CommitResult{}, err
		}
	}
	if sha == "" {
		return CommitResult{Skipped: SkippedNoChanges, Left: left}, nil
	}
	return CommitResult{SHA: sha, Subject: subject, Paths: paths, Left: left}, nil
}

// holes returns the changed files that git would read for minutes, although they hold nothing (door.MostlyHoles).
func (r *Repo) holes(changes []change) (paths []string) {
	for _, c := range changes {
		if info, err := os.Lstat(filepath.Join(r.Top, c.path)); err == nil && door.MostlyHoles(info) {
			paths = append(paths, c.path)
		}
	}
	return paths
}

// toCommit selects the paths of a commit. It leaves out a repository inside the work tree that is not a submodule,
// because git would only commit a commit id that nobody else can fetch.
func toCommit(changes []change, exclude []string) (paths []string, err error) {
	not := make(map[string]bool, len(exclude))
	for _, p := range exclude {
		not[p] = true
	}
	for _, c := range changes {
		switch {
		case c.nested(), not[c.path]:
		case c.unmerged:
			return nil, fmt.Errorf("%w: %s has a conflict; resolve it, then: git add %s", ErrBusy, c.path, text.Paste(c.path))
		default:
			paths = append(paths, c.path)
		}
	}
	return paths, nil
}

// plain splits paths into those that git stores as they are and those that exist and have a filter.
func (r *Repo) plain(ctx context.Context, paths []string) (plain, left []string, err error) {
	filtered, err := r.git.Filtered(ctx, paths)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range paths {
		_, has := slices.BinarySearch(filtered, p)
		if info, err := os.Lstat(filepath.Join(r.Top, p)); has && err == nil && info.Mode().IsRegular() {
			left = append(left, p)
		} else {
			plain = append(plain, p)
		}
	}
	return plain, left, nil
}

// base is what a commit starts from: HEAD, its tree, and an index of its own that has the files of the tree.
type base struct {
	head, tree string // "" in a repository without a commit
	own        *Repo  // the repository with that index
	done       func() // removes the index
	err        error
}

// startBase starts to read the base of a commit, and returns a function that waits for it.
func (r *Repo) startBase(ctx context.Context) func() base {
	file, disk := filepath.Join(r.git.View, "commit-index"), durable.OS()
	remove := func() { _, _ = disk.Unlink("commit-index", file), disk.Unlink("commit-index", file+".lock") }
	read := sync.OnceValue(func() base {
		remove() // of a killed superloop
		b := base{own: &Repo{Top: r.Top, GitDir: r.GitDir, git: r.git.WithIndex(file)}, done: remove}
		if b.head, b.tree, b.err = r.headTree(ctx); b.err != nil {
			return b
		}
		_, b.err = b.own.run(ctx, nil, "read-tree", cmp.Or(b.head, "--empty"))
		return b
	})
	go read()
	return read
}

// commitPaths makes the commit from its base and returns its id, or "" if the paths are the same as in HEAD.
// The branch leads to the commit only when all of it is on the disk.
func (r *Repo) commitPaths(ctx context.Context, q CommitRequest, message string, b base, paths []string) (sha string, err error) {
	const doing = "committing"
	if b.err != nil {
		return "", r.explain(doing, b.err)
	}
	own, head := b.own, b.head
	gone, there := r.split(paths)
	for _, part := range []struct {
		paths []string
		how   []string
	}{{gone, []string{"--force-remove"}}, {there, []string{"--add", "--remove", "--replace"}}} {
		if len(part.paths) == 0 {
			continue
		}
		list := []byte(strings.Join(part.paths, "\x00") + "\x00")
		if _, err := own.run(ctx, list, slices.Concat([]string{"update-index"}, part.how, []string{"-z", "--stdin"})...); err != nil {
			return "", r.explain("reading the changed files", err)
		}
	}
	id, err := own.line(ctx, "write-tree")
	if err != nil {
		return "", r.explain(doing, err)
	}
	args, was, reflog := []string{"commit-tree", id, "-F", "-"}, strings.Repeat("0", len(id)), "commit (initial): "
	if head != "" {
		if b.tree == id {
			return "", nil
		}
		args, was, reflog = append(args, "-p", head), head, "commit: "
	}
	out, err := r.run(ctx, []byte(message), args...)
	if err != nil {
		return "", r.explain(doing, err)
	}
	sha = strings.TrimSpace(string(out))
	if err := r.flushBefore(ctx, head, paths); err != nil { // the objects of the agent's own commits, too
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if q.Record != nil {
		if err := q.Record(sha); err != nil {
			return "", err
		}
	}
	subject, _, _ := strings.Cut(message, "\n")
	if _, err := r.run(ctx, nil, "update-ref", "-m", reflog+subject, "HEAD", sha, was); err != nil {
		return "", r.explain(doing, err)
	}
	r.follow(ctx, paths)
	if err := r.flushRef(sha); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	return sha, nil
}

// headTree returns the commit of HEAD and its tree, or "" in a repository without a commit.
func (r *Repo) headTree(ctx context.Context) (commit, tree string, err error) {
	if out, err := r.read(ctx, "rev-parse", "HEAD^{commit}", "HEAD^{tree}"); err == nil {
		commit, tree, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
		return commit, tree, nil
	}
	if commit, err = r.Head(ctx); err == nil && commit != "" {
		err = fmt.Errorf("the tree of the commit %s cannot be read", commit)
	}
	return "", "", err
}

// split splits paths into those that are gone and those that are there. A path behind a link is gone, as git sees it.
func (r *Repo) split(paths []string) (gone, there []string) {
	whole := map[string]bool{".": true} // directories without a link on their path
	for _, p := range paths {
		dir := filepath.Dir(p)
		is, known := whole[dir]
		if !known {
			real, err := filepath.EvalSymlinks(filepath.Join(r.Top, dir))
			is = err == nil && real == filepath.Join(r.Top, dir)
			whole[dir] = is
		}
		if _, err := os.Lstat(filepath.Join(r.Top, p)); is && err == nil {
			there = append(there, p)
		} else {
			gone = append(gone, p)
		}
	}
	return gone, there
}

// follow makes the index agree with HEAD at the paths, which are sorted. If it fails, the commit is made all the same,
// and git shows the paths as changed. git reset would do the same, but it reads both versions of each file into memory.
func (r *Repo) follow(ctx context.Context, paths []string) {
	raw, err := r.read(ctx, "diff-index", "--cached", "-z", "--no-renames", "HEAD")
	if err != nil {
		return
	}
	var entries []byte
	fields := strings.Split(string(raw), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		path, of := fields[i+1], strings.Fields(fields[i]) // :mode-in-HEAD mode object-in-HEAD object status
		if _, committed := slices.BinarySearch(paths, path); committed && len(of) == 5 {
			entries = append(entries, strings.TrimPrefix(of[0], ":")+" "+of[2]+"\t"+path+"\x00"...) // mode 0 removes the path
		}
	}
	if _, err := r.run(ctx, entries, "update-index", "-z", "--index-info"); err == nil {
		_, _ = r.read(ctx, "update-index", "-q", "--refresh") // exit code 1 says that files differ
	}
}

// free returns an error if the state of the repository does not allow a commit.
func (r *Repo) free() error {
	const end = "end it with %s--continue or --abort; it is marked by "
	if file := filepath.Join(r.GitDir, "index.lock"); exists(file) {
		return fmt.Errorf("%w; wait for it; if none is running, remove %s", ErrLocked, text.Paste(file))
	}
	for _, s := range []struct{ file, what, then string }{
		{"MERGE_HEAD", "a merge is in progress", fmt.Sprintf(end, "git merge ")},
		{"CHERRY_PICK_HEAD", "a cherry-pick is in progress", fmt.Sprintf(end, "git cherry-pick ")},
		{"REVERT_HEAD", "a revert is in progress", fmt.Sprintf(end, "git revert ")},
		{"rebase-merge", "a rebase is in progress", fmt.Sprintf(end, "git rebase ")},
		{"rebase-apply", "a rebase or git am is in progress", fmt.Sprintf(end, "")},
	} {
		file := filepath.Join(r.GitDir, s.file)
		if _, err := os.Lstat(file); err == nil {
			return fmt.Errorf("%w: %s; %s%s", ErrBusy, s.what, s.then, text.Paste(file))
		}
	}
	return nil
}

// explain says what failed, and what the operator can do if that is known.
func (r *Repo) explain(doing string, err error) error {
	failed, ran := errors.AsType[*proc.ToolError](err)
	if !ran {
		return fmt.Errorf("%s: %w", doing, err)
	}
	says := func(sign string) bool { return strings.Contains(failed.Stderr, sign) }
	switch top := text.Paste(r.Top); {
	case slices.ContainsFunc([]string{"Please tell me who you are", "empty ident", "auto-detect email", "no email was given", "no name was given"}, says):
		return fmt.Errorf("%s: %w; tell it: git -C %s config user.name NAME and git -C %s config user.email ADDRESS", doing, ErrIdentity, top, top)
	case says("index.lock"):
		return fmt.Errorf("%s: %w; if none is running, remove %s", doing, ErrLocked, text.Paste(filepath.Join(r.GitDir, "index.lock")))
	default:
		return fmt.Errorf("%s in %s: %w; see what git says by: git -C %s status", doing, r.Top, err, top)
	}
}

// message returns the commit's message and its subject. Subject and body may come from an agent, so message removes
// unprintable characters and cuts the subject to one line of at most MaxSubject characters. The last paragraph holds
// superloop's trailers.
func (q CommitRequest) message() (message, subject string) {
	limit := cmp.Or(max(q.MaxSubject, 0), defaultSubject)
	subject = text.Cut(field(q.Subject), limit)
	if subject == "" {
		subject = text.Cut(fmt.Sprintf("superloop: %s, iteration %d", field(q.LoopID), q.Iteration), limit)
	}
	var b strings.Builder
	b.WriteString(subject + "\n\n")
	if body := q.body(); body != "" {
		b.WriteString(body + "\n\n")
	}
	for _, t := range q.trailers() {
		fmt.Fprintf(&b, "%s: %s\n", t[0], t[1])
	}
	return b.String(), subject
}

func (q CommitRequest) trailers() [][2]string {
	return [][2]string{{"Superloop-Loop", field(q.LoopID)}, {"Superloop-Run", field(q.RunID)},
		{"Superloop-Iteration", fmt.Sprint(q.Iteration)}, {"Superloop-Commit-Strategy", field(cmp.Or(q.Strategy, "per_iteration"))}}
}

func (q CommitRequest) body() string {
	body := q.Body
	if len(body) > maxBody {
		body = text.Head(body, maxBody) + "\n[cut]"
	}
	var lines []string
	for line := range strings.Lines(printable(strings.ReplaceAll(body, "\r\n", "\n"), true)) {
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if strings.HasSuffix(line, scissors) {
			line = " " + line
		}
		if line != "" || len(lines) > 0 && lines[len(lines)-1] != "" {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// field turns a value into one line.
func field(s string) string { return strings.Join(strings.Fields(printable(s, false)), " ") }

// printable removes control characters from s, and the characters that change the direction of writing, because these
// can make one line look like another. If lines is true, newlines and tabs stay; otherwise they become spaces.
func printable(s string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case lines && (r == '\n' || r == '\t'):
			return r
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r), r == 0xFEFF, r == 0x200E, r == 0x200F,
			0x202A <= r && r <= 0x202E, 0x2066 <= r && r <= 0x2069:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}
