package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
)

// standing finds the directory itself, or the nearest one above it that is
// there.
func standing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// inside reports whether path, or where it would be made, is in dir, links
// resolved.
func inside(path, dir string) bool {
	at := standing(path)
	rest, err := filepath.Rel(at, path)
	if err != nil {
		return false
	}
	if at, err = filepath.EvalSymlinks(at); err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(dir, filepath.Join(at, rest))
	return err == nil && filepath.IsLocal(rel)
}

// privateState looks whether superloop can keep what an agent has no business
// with, and whether others may read it.
func (p Target) privateState(context.Context) Result {
	switch {
	case p.PlacesErr != nil:
		return Result{Status: Fail, Detail: p.PlacesErr.Error(), Fix: "set XDG_STATE_HOME to an absolute path outside the repository"}
	case len(p.Loops) == 0:
		return Result{Status: Fail, Detail: "not known without a loop in the configuration", Fix: "superloop validate"}
	}
	// <state home>/superloop/<repository>, then loops/<id> for each loop
	dirs := []string{filepath.Dir(filepath.Dir(p.Loops[0].Private))}
	for _, l := range p.Loops {
		dirs = append(dirs, l.Private)
	}
	for _, dir := range dirs {
		if inside(dir, p.Repo) {
			return Result{Status: Fail, Detail: dir + " is inside the repository, where agents work", Fix: "set XDG_STATE_HOME to a directory outside " + text.Paste(p.Repo)}
		}
		at := standing(dir)
		info, err := os.Stat(at)
		switch {
		case err != nil:
			return Result{Status: Fail, Detail: err.Error(), Fix: "ls -ld " + text.Paste(at)}
		case !info.IsDir():
			return Result{Status: Fail, Detail: at + " is not a directory", Fix: "move it away: mv " + text.Paste(at) + " " + text.Paste(at+".old")}
		}
		if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
			return Result{Status: Fail, Detail: fmt.Sprintf("%s cannot be written: %v", at, err), Fix: "chmod u+rwx " + text.Paste(at) + ", or set XDG_STATE_HOME"}
		}
		if perm := info.Mode().Perm(); at == dir && perm != 0o700 {
			return Result{Status: Warn, Detail: fmt.Sprintf("%s has mode %04o, not 0700", dir, perm), Fix: "chmod 700 " + text.Paste(dir)}
		}
	}
	if standing(dirs[0]) != dirs[0] {
		return Result{Status: OK, Detail: dirs[0] + " will be made by the first run, with mode 0700"}
	}
	return Result{Status: OK, Detail: dirs[0] + ", mode 0700"}
}

// holder is who runs the loop, if anybody does.
func (l Place) holder() (who string, held bool, err error) {
	for _, lock := range l.Locks {
		raw, locked, err := durable.Holder(lock)
		if err != nil {
			return "", false, err
		}
		if locked {
			return l.Holder(raw), true, nil
		}
	}
	return "", false, nil
}

// supervisor tells who holds the lock.
func (l Place) supervisor() Result {
	who, held, err := l.holder()
	switch {
	case err != nil:
		return Result{Status: Fail, Detail: err.Error(), Fix: "look at the file that is named; a lock is a regular file that you may read"}
	case held:
		return Result{Status: OK, Detail: "runs now: " + who}
	}
	return Result{Status: OK, Detail: "nobody runs it"}
}

// journal looks whether every line of the journal is the one that was written,
// and none is missing at its end.
func (l Place) journal() Result {
	verify := "superloop events --verify --loop " + l.ID
	aside := fmt.Sprintf("%s; to start anew, move %s and %s away", verify, text.Paste(l.Events), text.Paste(l.Head))
	rep, err := journal.Verify(l.Events)
	if errors.Is(err, fs.ErrNotExist) {
		if err := journal.CheckHead(l.Events, l.Head); err != nil {
			return Result{Status: Fail, Detail: err.Error(), Fix: aside}
		}
		return Result{Status: OK, Detail: "none, the loop has not run yet"}
	}
	if err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: verify}
	}
	if bad := rep.FirstBad; bad != nil && !bad.Torn {
		return Result{Status: Fail, Detail: bad.Error(), Fix: aside}
	}
	if err := journal.CheckHead(l.Events, l.Head); err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: aside}
	}
	whole := count(int(rep.Events), "event") + ", the chain is whole"
	if rep.FirstBad != nil {
		if _, held, err := l.holder(); err == nil && held {
			return Result{Status: OK, Detail: whole + "; one more is being written"}
		}
		return Result{Status: Warn, Detail: whole + " up to a torn last line, as a crash leaves it", Fix: "superloop run --loop " + l.ID + " copies it aside and goes on"}
	}
	return Result{Status: OK, Detail: whole}
}

// state looks whether state.json can be read and is of this journal.
func (l Place) state() Result {
	var v struct {
		LoopID    string `json:"loop_id"`
		Status    string `json:"status"`
		Iteration int    `json:"iteration"`
		Seq       int64  `json:"seq"`
	}
	anew := "nothing is lost, it is made from the journal: superloop run --loop " + l.ID + " writes it anew"
	data, err := os.ReadFile(l.State)
	if errors.Is(err, fs.ErrNotExist) {
		if last, err := journal.Tail(l.Events, 1); err == nil && len(last) > 0 {
			return Result{Status: Warn, Detail: "there is no " + l.State + ", but a journal", Fix: anew}
		}
		return Result{Status: OK, Detail: "none, the loop has not run yet"}
	}
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		return Result{Status: Warn, Detail: fmt.Sprintf("reading %s: %v", l.State, err), Fix: anew}
	}
	if v.LoopID != l.ID {
		return Result{Status: Warn, Detail: fmt.Sprintf("%s is of the loop %q", l.State, v.LoopID), Fix: anew}
	}
	detail := fmt.Sprintf("%s, iteration %d, as of event %d", v.Status, v.Iteration, v.Seq)
	// The journal is read after state.json, so a supervisor at work cannot make
	// it look shorter than it was.
	last, err := journal.Tail(l.Events, 1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Result{Status: Warn, Detail: detail + "; the journal's end cannot be read", Fix: "superloop events --verify --loop " + l.ID}
	}
	seq := int64(0)
	if len(last) > 0 {
		seq = last[0].Seq
	}
	if v.Seq > seq {
		return Result{Status: Warn, Detail: fmt.Sprintf("%s, but the journal ends at event %d", detail, seq), Fix: "superloop events --verify --loop " + l.ID}
	}
	return Result{Status: OK, Detail: detail}
}
