package carry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/worktree"
)

const (
	// maxSmall bounds a file of the loop that is carried, in bytes: the logs of agents stay where they were written.
	maxSmall = 1 << 20
	// maxWork bounds a file of the work tree that is not committed, in bytes. Hosts of git refuse larger ones.
	maxWork = 50 << 20
	// pushPatience is how long Push tries to reach the remote.
	pushPatience = 2 * time.Minute
)

// Push makes what this machine has done the truth about the loop. ended says that the loop has ended: it then has to be
// started anew. The error is a *LostError if another machine has the loop; what is here is kept then. After any other error
// the outcome of the push may be unknown, and the next Push finds it out.
func (l *Loop) Push(ctx context.Context, ended bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec.State == "" {
		return &LostError{Loop: l.rec.Loop, Repo: l.Repo}
	}
	l.rec.Ended = ended
	return l.push(ctx)
}

// Unsettled reports whether the outcome of the last push is unknown. Then nothing should begin before the next one.
func (l *Loop) Unsettled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec.Next != ""
}

func (l *Loop) push(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, pushPatience)
	defer stop()
	if l.rec.Next != "" { // the outcome of the last push is unknown
		if err := l.settle(ctx); err != nil {
			return err
		}
	}
	next, head, tree, err := l.save(ctx)
	if err != nil {
		return fmt.Errorf("saving the state of loop %s: %w", l.rec.Loop, err)
	}
	if tree+head == l.pushed {
		return nil
	}
	l.rec.Next = next
	if err := l.write(); err != nil {
		return err
	}
	ref := StateRef(l.rec.Loop)
	for pause := time.Second; ; pause = min(2*pause, 15*time.Second) {
		err := l.git.Swap(ctx, l.rec.Remote, ref, l.rec.State, next, "+"+head+":"+WorkRef(l.rec.Loop))
		if err == nil {
			l.rec.State = next
		} else {
			l.o.Log.Warn("the state of a loop could not be pushed", zap.String("loop", l.rec.Loop), zap.Error(err))
			if lost := l.settle(ctx); lost != nil {
				if _, is := errors.AsType[*LostError](lost); is {
					return lost
				}
				err = errors.Join(err, lost)
			}
		}
		if l.rec.State == next {
			l.rec.Next, l.pushed = "", tree+head
			return l.write()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the state of loop %s does not reach %s: %w", l.rec.Loop, text.Paste(l.rec.Remote), err)
		case <-time.After(pause):
		}
	}
}

// settle finds out what came of a push.
func (l *Loop) settle(ctx context.Context) error {
	there, err := l.git.At(ctx, l.rec.Remote, StateRef(l.rec.Loop))
	switch {
	case err != nil:
		return err
	case there == l.rec.Next:
		l.rec.State = there
	case there != l.rec.State:
		return l.lose(ctx)
	}
	return nil
}

// lose lets the loop go, and keeps what this machine has and could not push.
func (l *Loop) lose(ctx context.Context) error {
	ref, err := l.keep(ctx)
	if err != nil {
		return err
	}
	l.rec.State, l.rec.Next = "", ""
	if err := l.write(); err != nil {
		return err
	}
	l.o.Log.Warn("another machine has a loop that ran here", zap.String("loop", l.rec.Loop), zap.String("repo", l.Repo), zap.String("kept_under", ref))
	return &LostError{Loop: l.rec.Loop, Repo: l.Repo, Ref: ref}
}

// keep puts the present state under a ref of this machine alone.
func (l *Loop) keep(ctx context.Context) (ref string, err error) {
	state, _, _, err := l.save(ctx)
	if err != nil {
		return "", fmt.Errorf("keeping the work of loop %s: %w", l.rec.Loop, err)
	}
	ref = lostRef(l.rec.Loop, l.o.Now())
	_, err = l.git.Run(ctx, nil, "update-ref", ref, state)
	return ref, err
}

// save makes the commit of the present state, and returns it, the commit that the work tree has as HEAD, and its tree.
func (l *Loop) save(ctx context.Context) (state, head, tree string, err error) {
	out, err := l.git.Run(ctx, nil, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return "", "", "", err
	}
	head = strings.TrimSpace(string(out))
	work, err := l.work(ctx, head)
	if err != nil {
		return "", "", "", err
	}
	index := work
	if out, err := l.git.Run(ctx, nil, "write-tree"); err == nil { // an index with conflicts has no tree
		index = strings.TrimSpace(string(out))
	}
	var files []file
	for try := 0; ; try++ {
		files, err = l.own(ctx)
		if !errors.Is(err, fs.ErrNotExist) || try == 9 { // a message was delivered meanwhile
			break
		}
	}
	if err != nil {
		return "", "", "", err
	}
	said, err := loop.EncodeIndent(meta{Version: metaVersion, Workflow: l.rec.Workflow, Loop: l.rec.Loop, Machine: l.rec.Machine, Grant: l.rec.Grant, Ended: l.rec.Ended}, "  ")
	if err != nil {
		return "", "", "", err
	}
	id, err := l.object(ctx, said)
	if err != nil {
		return "", "", "", err
	}
	if tree, err = l.tree(ctx, "", append(files, file{"meta.json", id, "100644"}), map[string]string{"work": work, "index": index}); err != nil {
		return "", "", "", err
	}
	state, err = l.commit(ctx, tree, head)
	return state, head, tree, err
}

// commit makes the commit of a state.
func (l *Loop) commit(ctx context.Context, tree, head string) (string, error) {
	message := fmt.Sprintf("superloop: the state of loop %s on machine %s\n\n%s%s\n", l.rec.Loop, l.rec.Machine, macLine, mac(l.rec.Keys[0], l.rec.Workflow, tree, head))
	out, err := l.git.Run(ctx, []byte(message), "-c", "user.name=superloop", "-c", "user.email=superloop@localhost", "commit-tree", "--no-gpg-sign", "-p", head, tree)
	return strings.TrimSpace(string(out)), err
}

// file is an entry of a tree.
type file struct{ path, id, mode string }

// tree writes a tree: that of a commit or of nothing, with files and trees put in. A file without an id is taken out.
func (l *Loop) tree(ctx context.Context, from string, files []file, trees map[string]string) (string, error) {
	index := filepath.Join(l.dir, "index")
	remove := func() { _, _ = l.o.Disk.Unlink("carried", index), l.o.Disk.Unlink("carried", index+".lock") }
	remove() // of a killed superloop
	defer remove()
	git := l.git.WithIndex(index)
	begin := []string{"read-tree", "--empty"}
	if from != "" {
		begin = []string{"read-tree", from}
	}
	if _, err := git.Run(ctx, nil, begin...); err != nil {
		return "", err
	}
	var list bytes.Buffer
	slices.SortStableFunc(files, func(a, b file) int { return strings.Compare(a.mode, b.mode) }) // what is taken out comes first
	for _, f := range files {
		if f.id == "" {
			fmt.Fprintf(&list, "0 %s\t%s\x00", strings.Repeat("0", 40), f.path)
		} else {
			fmt.Fprintf(&list, "%s %s\t%s\x00", f.mode, f.id, f.path)
		}
	}
	if _, err := git.Run(ctx, list.Bytes(), "update-index", "--add", "--replace", "-z", "--index-info"); err != nil {
		return "", err
	}
	for name, t := range trees {
		if _, err := git.Run(ctx, nil, "read-tree", "--prefix="+name+"/", t); err != nil {
			return "", err
		}
	}
	out, err := git.Run(ctx, nil, "write-tree")
	return strings.TrimSpace(string(out)), err
}

// work writes the tree of all that is in the work tree and not ignored, byte by byte.
func (l *Loop) work(ctx context.Context, head string) (string, error) {
	repo, err := worktree.OpenEnv(ctx, l.Repo, l.paths.Git(), l.o.Environ)
	if err != nil {
		return "", err
	}
	dirty, err := repo.Dirty(ctx)
	if err != nil {
		return "", err
	}
	var files []file
	var paths []string
	for _, name := range dirty {
		full := filepath.Join(l.Repo, name)
		info, err := os.Lstat(full)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			files = append(files, file{path: name})
		case err != nil:
			return "", err
		case info.Mode().Type() == fs.ModeSymlink:
			to, err := os.Readlink(full)
			if err != nil {
				return "", err
			}
			id, err := l.object(ctx, []byte(to))
			if err != nil {
				return "", err
			}
			files = append(files, file{name, id, "120000"})
		case !info.Mode().IsRegular() || info.Size() > maxWork || strings.ContainsAny(name, "\n\""):
			l.o.Log.Warn("a changed file stays on this machine: it is no regular file, or larger than 50 MiB, or has a name that cannot be carried", zap.String("path", full))
		default:
			mode := "100644"
			if info.Mode()&0o100 != 0 {
				mode = "100755"
			}
			files, paths = append(files, file{name, "+", mode}), append(paths, name)
		}
	}
	if len(paths) > 0 {
		out, err := l.git.Run(ctx, []byte(strings.Join(paths, "\n")+"\n"), "hash-object", "-w", "--no-filters", "--stdin-paths")
		if err != nil {
			return "", err
		}
		ids := strings.Fields(string(out))
		if len(ids) != len(paths) {
			return "", fmt.Errorf("git has stored %d of %d files", len(ids), len(paths))
		}
		for i := range files {
			if files[i].id == "+" {
				files[i].id, ids = ids[0], ids[1:]
			}
		}
	}
	return l.tree(ctx, head, files, nil)
}

// own stores superloop's own files: the configuration, those of the loop, and those of its private state.
func (l *Loop) own(ctx context.Context) (files []file, err error) {
	// The anchor of the journal, which is private, is read before the journal: a line may be written meanwhile.
	for _, part := range []struct{ name, dir string }{{"private", l.paths.Private}, {"super", l.paths.Super}, {"loop", l.paths.Loop}} {
		some, err := l.below(ctx, part.name, part.dir)
		if err != nil {
			return nil, err
		}
		files = append(files, some...)
	}
	return files, nil
}

// below stores the files of one directory, and its directories.
func (l *Loop) below(ctx context.Context, part, dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(full string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && full == dir {
			return nil
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, full)
		if rel != "." && stays(part, rel) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		id, err := l.fileObject(ctx, full, info, part == "loop" && strings.HasPrefix(rel, "events.jsonl"))
		if err == nil && id != "" {
			mode := "100644"
			if info.Mode()&0o100 != 0 {
				mode = "100755"
			}
			files = append(files, file{part + "/" + filepath.ToSlash(rel), id, mode})
		}
		return err
	})
	return files, err
}

// stays reports whether a file is the machine's own. "super" is .superloop, "loop" the loop's directory in it.
func stays(part, rel string) bool {
	name := filepath.Base(rel)
	if durable.IsTemp(name) || strings.EqualFold(name, ".git") || strings.ContainsRune(rel, '\n') {
		return true
	}
	switch part {
	case "super":
		return slices.Contains([]string{"loops", "worktrees", "state.json", "backlog"}, rel)
	case "loop":
		return rel == "lock"
	}
	// The lock, what git reads here, where the repository lies, and the sealing that is compared with files of this machine.
	return rel == "lock" || rel == "repository" || rel == "git" || strings.HasPrefix(rel, "git-") || rel == "trust.json"
}

// fileObject stores a file, and returns "" for one that is too large, unless it is part of the journal.
func (l *Loop) fileObject(ctx context.Context, full string, info fs.FileInfo, journal bool) (string, error) {
	known := l.blobs[full]
	if known.id != "" && known.size == info.Size() && known.at.Equal(info.ModTime()) {
		return known.id, nil
	}
	if info.Size() > maxSmall && !journal {
		return "", nil
	}
	data, err := door.Read(full, max(info.Size(), maxSmall)+1)
	if err != nil {
		return "", err
	}
	id, err := l.object(ctx, data)
	if err == nil && l.o.Now().Sub(info.ModTime()) > 2*time.Second { // a file that changes twice at a time is read again
		l.blobs[full] = blob{info.Size(), info.ModTime(), id}
	}
	return id, err
}

// object stores bytes.
func (l *Loop) object(ctx context.Context, data []byte) (string, error) {
	out, err := l.git.Run(ctx, data, "hash-object", "-w", "--stdin")
	return strings.TrimSpace(string(out)), err
}

// blobAt reads a file of a state. ok is false if the state does not have it.
func (l *Loop) blobAt(ctx context.Context, state, name string) (data []byte, ok bool, err error) {
	out, err := l.git.Run(ctx, nil, "ls-tree", "-z", state, "--", name)
	if err != nil || len(out) == 0 {
		return nil, false, err
	}
	data, err = l.git.Run(ctx, nil, "cat-file", "blob", state+":"+name)
	return data, err == nil, err
}
