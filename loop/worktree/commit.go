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
	"time"
	"unicode"

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
	// ErrIdentity means that git does not know the author of the commit.
	ErrIdentity = errors.New("git does not know the author")
)

const (
	lookBack       = 20               // how many commits committed searches for a commit that was made before a crash
	forgetTime     = 30 * time.Second // bounds the time of forget
	defaultSubject = 72
	maxBody        = 64 << 10 // bytes
	// scissors, after the comment character, ends the message for git. git would not find trailers after such a line.
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
}

// CommitResult is the result of Commit. SHA is the commit that holds the work, or "" if nothing was changed.
type CommitResult struct {
	SHA     string
	Subject string
	Skipped string   // "", SkippedNoChanges, SkippedAlreadyCommitted
	Paths   []string // the paths that were committed
}

// Commit commits every changed, deleted or untracked file of the work tree, except for those under .superloop and the
// excluded ones. Excluded paths that an operator had staged stay staged. Hooks run, and ctx bounds their time. If the
// commit fails, the index is as it was before.
//
// Commit may be repeated after a crash: if the trailers of one of the last 20 commits name the iteration, it returns
// that commit.
func (r *Repo) Commit(ctx context.Context, q CommitRequest) (CommitResult, error) {
	if sha, subject, err := r.committed(ctx, q); err != nil || sha != "" {
		return CommitResult{SHA: sha, Subject: subject, Skipped: SkippedAlreadyCommitted}, err
	}
	if err := r.free(); err != nil {
		return CommitResult{}, err
	}
	changes, err := r.status(ctx)
	if err != nil {
		return CommitResult{}, err
	}
	paths, fresh, err := toCommit(changes, q.Exclude)
	if err != nil {
		return CommitResult{}, err
	}
	message, subject := q.message()
	made := false
	if len(paths) > 0 {
		made, err = r.commitPaths(ctx, message, paths, fresh)
	}
	if err != nil {
		return CommitResult{}, err
	} else if !made {
		return CommitResult{Skipped: SkippedNoChanges}, nil
	}
	sha, err := r.Head(ctx)
	return CommitResult{SHA: sha, Subject: subject, Paths: paths}, err
}

// toCommit selects the paths of a commit. fresh lists those that git does not track yet. toCommit leaves out a
// repository inside the work tree that is not a submodule, because git would only commit a commit id that nobody else
// can fetch.
func toCommit(changes []change, exclude []string) (paths, fresh []string, err error) {
	not := make(map[string]bool, len(exclude))
	for _, p := range exclude {
		not[p] = true
	}
	for _, c := range changes {
		switch {
		case c.nested(), not[c.path]:
		case c.unmerged:
			return nil, nil, fmt.Errorf("%w: %s has a conflict; resolve it, then: git add %s", ErrBusy, c.path, text.Paste(c.path))
		case c.staged == '.' && strings.HasPrefix(c.submodule, "S.") && c.mode == modeGitlink:
			// The submodule has changes inside only. It has no new commit that this commit could record.
		default:
			if paths = append(paths, c.path); c.untracked() {
				fresh = append(fresh, c.path)
			}
		}
	}
	return paths, fresh, nil
}

// commitPaths makes the commit. made is false if the paths are the same as in HEAD.
func (r *Repo) commitPaths(ctx context.Context, message string, paths, fresh []string) (made bool, err error) {
	disk := durable.OS()
	list := filepath.Join(r.GitDir, "superloop-commit-paths")
	if err := disk.WriteProjection("commit-paths", list, pathspecs(paths), 0o600); err != nil {
		return false, fmt.Errorf("committing: %w", err)
	}
	defer func() { _ = disk.Remove("commit-paths", list) }()
	// A partial commit accepts only files that are in the index.
	if len(fresh) > 0 {
		if _, err := r.write(ctx, pathspecs(fresh), "add", "--pathspec-from-file=-", "--pathspec-file-nul"); err != nil {
			r.forget(fresh)
			return false, r.explain("staging the new files", err)
		}
	}
	commit := []string{"commit", "--quiet", "--only", "--cleanup=whitespace", "--pathspec-from-file=" + list, "--pathspec-file-nul"}
	_, err = r.write(ctx, []byte(message), append(commit, "--file=-")...)
	if err == nil {
		// The commit contains the files that a hook has formatted and added, but after a partial commit the index has
		// the content from before the hook. The reset updates the index. If the reset fails, the commit is made all the
		// same.
		_, _ = r.write(ctx, nil, "reset", "--quiet", "--pathspec-from-file="+list, "--pathspec-file-nul")
		return true, nil
	}
	r.forget(fresh)
	if exitCode(err) == 1 && ctx.Err() == nil {
		// Either a hook has refused the commit, or there is nothing to commit. A dry run without hooks tells which: it
		// succeeds only in the first case.
		_, dry := r.write(ctx, []byte(message), append(commit, "--dry-run", "--file=-")...)
		if exitCode(dry) == 1 && len(fresh) == 0 {
			return false, nil
		}
	}
	return false, r.explain("committing", err)
}

// forget removes files from the index that were not in it before. It has its own time limit, because the caller's
// context may have ended.
func (r *Repo) forget(fresh []string) {
	if len(fresh) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	_, _ = r.write(ctx, pathspecs(fresh), "rm", "--quiet", "--cached", "--ignore-unmatch", "-f",
		"--pathspec-from-file=-", "--pathspec-file-nul")
}

// pathspecs returns the paths as NUL-terminated pathspecs that match literally from the top.
func pathspecs(paths []string) []byte {
	var b []byte
	for _, p := range paths {
		b = append(b, ":(top,literal)"+p+"\x00"...)
	}
	return b
}

// free returns an error if the state of the repository does not allow a commit.
func (r *Repo) free() error {
	const end = "end it with %s--continue or --abort; it is marked by "
	for _, s := range []struct{ file, what, then string }{
		{"index.lock", "another git holds the index", "wait for it; if none is running, remove "},
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
		return fmt.Errorf("%s: %w: another git holds the index; if none is running, remove %s", doing, ErrBusy, text.Paste(filepath.Join(r.GitDir, "index.lock")))
	default:
		return fmt.Errorf("%s in %s: %w; if a hook refused it, see what it says by: git -C %s commit", doing, r.Top, err, top)
	}
}

// committed looks for a commit that carries the trailers of this request.
func (r *Repo) committed(ctx context.Context, q CommitRequest) (sha, subject string, err error) {
	head, err := r.Head(ctx)
	if err != nil || head == "" {
		return "", "", err
	}
	format := "%H%x1f%s"
	for _, t := range q.trailers()[:3] {
		format += "%x1f%(trailers:key=" + t[0] + ",valueonly,separator=%x1e)"
	}
	out, err := r.read(ctx, "log", fmt.Sprintf("-%d", lookBack), "-z", "--no-show-signature", "--format="+format)
	if err != nil {
		return "", "", fmt.Errorf("reading the last commits: %w", err)
	}
	for _, rec := range strings.Split(string(out), "\x00") {
		f := strings.Split(rec, "\x1f")
		if len(f) == 5 && f[2] == field(q.LoopID) && f[3] == field(q.RunID) && f[4] == fmt.Sprint(q.Iteration) {
			return f[0], f[1], nil
		}
	}
	return "", "", nil
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
