package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

// ErrDamaged means that the repository lacks objects that Heal cannot do without.
var ErrDamaged = errors.New("the repository is damaged")

const (
	maxReflog = 8 << 20 // bytes of the end of a reflog that Heal reads
	maxRefs   = 64 << 20
	// young is how many commits Heal looks at if it knows nothing of their age.
	young = "--max-count=1000"
)

// Accident is what is known of the time before a start.
type Accident struct {
	Unclean bool      // the last supervisor did not end by itself
	Since   time.Time // what was written before is on the disk; zero if nothing is known
	Commit  string    // the last commit that superloop recorded, which is on the disk; or ""
	Now     time.Time
}

// Healed says what Heal did.
type Healed struct {
	Did []string // sentences, empty if there was nothing to do
	// Damaged says which submodules cannot be healed, and why, each with the next command.
	Damaged []string
	Kept    string // the directory of what was replaced, under the names that the files had in the git directory; or ""
}

// MendHead writes the file HEAD of the repository at dir anew, if a power cut has left it empty. git does not even open
// such a repository. If it cannot know to which branch HEAD led, the error is ErrDamaged and names the command.
func MendHead(dir string) (Healed, error) {
	did, err := gitcmd.MendHead(dir)
	if err != nil {
		return Healed{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if did == "" {
		return Healed{}, nil
	}
	return Healed{Did: []string{did}}, nil
}

// healer heals one repository.
type healer struct {
	*Repo
	Healed
	was     Accident
	partial bool            // the repository is a partial clone, in which objects may be missing
	lost    map[string]bool // commits that are not whole
	disk    durable.Disk
}

// Heal makes a repository usable that a power cut has damaged. git flushes few of its writes, so after a cut the last
// objects of an agent may be empty or short, and so may a branch, packed-refs and the index. Heal never touches the work
// tree: what it takes out of HEAD or of the index is uncommitted work afterwards. It keeps what it replaces. It heals the
// repositories of submodules that are checked out, too. If it cannot heal, the error is ErrDamaged and names the next command. After a kill at any step it can be called again.
//
// Objects that are no objects go, because they keep git from writing the same content again. If the commit of HEAD is
// not whole then, HEAD goes back to the newest whole commit of its reflog. The index is built anew from HEAD if it is
// damaged, or names objects that are gone.
//
// Unless the accident is Unclean, Heal only looks whether HEAD and the index can be read, and does nothing if they can.
func (r *Repo) Heal(ctx context.Context, a Accident) (Healed, error) {
	if !a.Unclean {
		head, _, err := r.headTree(ctx)
		if err == nil && r.sound() && (head != "" || r.unborn()) {
			r.durable.head = head
			return Healed{}, nil
		}
		a.Since = time.Time{}
	}
	h := &healer{Repo: r, was: a, lost: map[string]bool{}, disk: durable.OS()}
	if _, err := r.read(ctx, "config", "extensions.partialClone"); err == nil {
		h.partial = true
	}
	for _, step := range []func(context.Context) error{h.locks, h.packedRefs, h.objects, h.refs, h.head, h.index, h.logs, h.submodules} {
		if err := step(ctx); err != nil {
			return h.Healed, h.failed(ctx, err)
		}
	}
	head, err := r.Head(ctx)
	r.durable.head = head
	if err == nil && len(h.Did) > 0 {
		err = r.Flush(ctx)
	}
	return h.Healed, err
}

func (h *healer) did(format string, args ...any) { h.Did = append(h.Did, fmt.Sprintf(format, args...)) }

// failed returns the error of a repository that Heal cannot heal.
func (h *healer) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	top := text.Paste(h.Top)
	do := fmt.Sprintf("see what is missing by: git -C %s fsck --full; then put .git back from a backup", top)
	if remotes, rerr := h.git.Admin(ctx, "config", "--get-regexp", `^remote\..*\.url$`); rerr == nil {
		name, _, _ := strings.Cut(strings.TrimPrefix(string(remotes), "remote."), ".url ")
		do = fmt.Sprintf("get the objects again by: git -C %s fetch --refetch %s", top, text.Paste(name))
	}
	if errors.Is(err, errSparse) {
		do = fmt.Sprintf("type: git -C %s read-tree HEAD && git -C %s sparse-checkout reapply", top, top)
	}
	return fmt.Errorf("%w: %s: %w; %s", ErrDamaged, h.Top, err, do)
}

// keep moves a file of the git directory to where it is kept.
func (h *healer) keep(path string) error {
	to, err := h.keptAs(path)
	if err != nil {
		return err
	}
	_, err = h.disk.MoveFree("git-heal", path, to)
	return err
}

// inside returns an error unless a path lies in the git directory. An agent can make links in there.
func (h *healer) inside(path string) error {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil && !strings.HasPrefix(dir+"/", h.git.Common+"/") && !strings.HasPrefix(dir+"/", h.GitDir+"/") {
		err = fmt.Errorf("%s leads out of the git directory; remove the link", path)
	}
	return err
}

// replace writes a file of the git directory anew, and keeps what is there.
func (h *healer) replace(path string, with []byte) error {
	if err := h.keepCopy(path); err != nil {
		return err
	}
	return h.disk.WriteFile("git-heal", path, with, 0o644)
}

// keepCopy copies a file of the git directory to where it is kept. What is no file is moved there.
func (h *healer) keepCopy(path string) error {
	data, err := door.Read(path, maxIndex)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h.inside(path)
	case errors.Is(err, door.ErrNotRegular):
		return h.keep(path)
	case err != nil:
		return err
	}
	to, err := h.keptAs(path)
	if err != nil {
		return err
	}
	return h.disk.WriteFile("git-heal", to, data, 0o600)
}

func (h *healer) keptAs(path string) (string, error) {
	if h.Kept == "" {
		h.Kept = filepath.Join(h.git.Common, "superloop-damaged", h.was.Now.UTC().Format("20060102T150405.000Z"))
	}
	rel, err := filepath.Rel(h.git.Common, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		rel = filepath.Base(path)
	}
	if err := h.inside(path); err != nil {
		return "", err
	}
	if err := h.disk.MkdirAll("git-heal", filepath.Dir(h.Kept), 0o755); err != nil {
		return "", err
	}
	to := filepath.Join(h.Kept, rel)
	if err := h.inside(h.Kept); err != nil {
		return "", err
	}
	return to, h.disk.MkdirAll("git-heal", filepath.Dir(to), 0o755)
}

// locks moves the locks of git processes away that ended with the supervisor. A lock stays while a git of its owner may
// work here. An older lock stays too: nothing says that its git has ended.
func (h *healer) locks(context.Context) error {
	var found []string
	for _, dir := range unique(h.GitDir, h.git.Common) {
		for _, name := range []string{"index.lock", "HEAD.lock", "packed-refs.lock", "config.lock"} {
			found = append(found, filepath.Join(dir, name))
		}
	}
	for _, p := range files(filepath.Join(h.git.Common, "refs")) {
		if strings.HasSuffix(p, ".lock") {
			found = append(found, p)
		}
	}
	found = slices.DeleteFunc(found, func(p string) bool {
		info, err := os.Lstat(p)
		if err != nil || !h.was.Unclean || info.ModTime().Before(h.was.Since) {
			return true
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		return !ok || proc.WorksIn("git", st.Uid, h.Top, h.git.Common)
	})
	if len(found) == 0 {
		return nil
	}
	for _, p := range found {
		if err := h.keep(p); err != nil {
			return err
		}
	}
	h.did("moved %s of a git that was ended away", counted(len(found), "lock"))
	return nil
}

// whole says what of a commit is missing or damaged: the commit itself, its trees, its files, or young commits before it.
func (h *healer) whole(ctx context.Context, commit string) error {
	args := []string{"rev-list", "--objects", "--quiet", "--missing=allow-promisor", commit}
	if _, err := h.read(ctx, append(args, "--max-count=1")...); err != nil {
		return err
	}
	limit := []string{young}
	if !h.was.Since.IsZero() {
		limit = []string{"--since=" + h.was.Since.UTC().Format(time.RFC3339)}
	}
	if h.was.Commit != "" && h.was.Commit != commit {
		if _, err := h.read(ctx, "cat-file", "-e", h.was.Commit+"^{commit}"); err == nil {
			limit = []string{"--not", h.was.Commit}
		}
	}
	_, err := h.read(ctx, append(args, limit...)...)
	return err
}

// head lets HEAD lead to a commit that is whole.
func (h *healer) head(ctx context.Context) error {
	head, broken := h.Head(ctx)
	if broken == nil && head == "" {
		if h.unborn() {
			return nil
		}
		broken = errors.New("HEAD leads to no commit")
	}
	if broken == nil {
		broken = h.whole(ctx, head)
	}
	if broken == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	logs := []string{filepath.Join(h.GitDir, "logs", "HEAD")}
	ref := h.branch()
	if ref != "" {
		logs = append(logs, filepath.Join(h.git.Common, "logs", ref))
	}
	back, first, err := h.newest(ctx, logs...)
	if err != nil {
		return err
	}
	if back == "" && h.was.Commit != "" && h.whole(ctx, h.was.Commit) == nil {
		back = h.was.Commit
	}
	if back == "" && (!first || ref == "") {
		return fmt.Errorf("%w, and the reflog names no commit that is whole", broken)
	}
	if ref != "" {
		// git replaces no branch that it cannot read, and would write the missing commit into the reflog.
		if file := filepath.Join(h.git.Common, ref); exists(file) {
			if err := h.keep(file); err != nil {
				return err
			}
		}
	}
	if back == "" {
		if _, err := h.Head(ctx); err != nil {
			return errors.Join(broken, err)
		}
		h.did("the first commit of %s was not on the disk; what it held is uncommitted work now", ref)
		return nil
	}
	if _, err := h.run(ctx, nil, "update-ref", "-m", "superloop: the newest commit that is whole", "HEAD", back); err != nil {
		return err
	}
	h.did("took HEAD back to %s, the newest commit that is whole; what came after it is uncommitted work now", back)
	return nil
}

// branch returns the full name of the branch to which HEAD leads, or "" if it leads to a commit. git itself gives no
// answer for a branch that is damaged.
func (r *Repo) branch() string {
	data, err := door.Read(filepath.Join(r.GitDir, "HEAD"), 4<<10)
	ref, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "ref: ")
	if err != nil || !ok || !strings.HasPrefix(ref, "refs/") || filepath.Clean(ref) != ref {
		return ""
	}
	return ref
}

// unborn reports whether HEAD leads to a branch on which nobody has committed yet.
func (r *Repo) unborn() bool {
	ref := r.branch()
	return ref != "" && !exists(filepath.Join(r.git.Common, ref)) && len(lines(filepath.Join(r.git.Common, "logs", ref))) == 0
}

// newest returns the newest whole commit that reflogs name, or "". first means that there is none because the repository
// had no commit before those that are lost.
func (h *healer) newest(ctx context.Context, logs ...string) (id string, first bool, err error) {
	tried, first := map[string]bool{}, len(logs) > 0
	for _, file := range logs {
		list := lines(file)
		first = first && len(list) > 0 && strings.Trim(list[0][0], "0") == ""
		for _, words := range slices.Backward(list) {
			for _, id := range []string{words[1], words[0]} {
				if tried[id] || strings.Trim(id, "0") == "" {
					continue
				}
				tried[id] = true
				if h.whole(ctx, id) == nil {
					return id, false, nil
				}
				if err := ctx.Err(); err != nil {
					return "", false, err
				}
				h.lost[id] = true
			}
		}
	}
	return "", first, nil
}

// lines returns the words of the whole lines of a reflog: the old id, the new id, and the rest. It leaves lines out that
// are none.
func lines(file string) (list [][]string) {
	data, _, err := door.Ends(file, 0, maxReflog)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(data) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(words) == 3 && isID(words[0]) && isID(words[1]) && strings.HasSuffix(line, "\n") {
			list = append(list, words)
		}
	}
	return list
}

func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// missing returns those of the ids for which the repository has no object. In a partial clone it returns none.
func (h *healer) missing(ctx context.Context, ids []string) (map[string]bool, error) {
	if len(ids) == 0 || h.partial {
		return nil, nil
	}
	out, err := h.run(ctx, []byte(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return nil, fmt.Errorf("looking for objects: %w", err)
	}
	gone := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if id, ok := strings.CutSuffix(line, " missing\n"); ok {
			gone[id] = true
		}
	}
	return gone, nil
}
