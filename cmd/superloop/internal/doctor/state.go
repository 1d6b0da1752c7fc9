package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
)

// standing returns path if it exists, and otherwise the nearest directory above it that exists.
func standing(path string) string {
	for !exists(path) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// inside reports whether path is in dir after symbolic links are resolved. A path that does not exist counts as where
// it would be made.
func inside(path, dir string) bool {
	at := standing(path)
	there, err := filepath.EvalSymlinks(at)
	if err != nil {
		return false
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	rel, err := filepath.Rel(dir, filepath.Join(there, strings.TrimPrefix(path, at)))
	return err == nil && filepath.IsLocal(rel)
}

// privateState checks whether superloop can write its private state outside the repository, and whether other users may
// read it.
func (p Target) privateState(context.Context) Result {
	switch {
	case p.PlacesErr != nil:
		return fail("set XDG_STATE_HOME to an absolute path outside the repository", "%v", p.PlacesErr)
	case len(p.Loops) == 0:
		return fail("superloop validate", "not known without a loop in the configuration")
	}
	// The private directory of the repository is <state home>/superloop/<repository>; a loop's is loops/<id> below it.
	dirs := []string{filepath.Dir(filepath.Dir(p.Loops[0].Private))}
	for _, l := range p.Loops {
		dirs = append(dirs, l.Private)
	}
	for _, dir := range dirs {
		if inside(dir, p.Repo) {
			return fail("set XDG_STATE_HOME to a directory outside "+text.Paste(p.Repo), "%s is inside the repository, where agents work", dir)
		}
		at := standing(dir)
		info, err := os.Stat(at)
		switch {
		case err != nil:
			return fail("ls -ld "+text.Paste(at), "%v", err)
		case !info.IsDir():
			return fail("move it away: mv "+text.Paste(at)+" "+text.Paste(at+".old"), "%s is not a directory", at)
		}
		if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
			return fail("chmod u+rwx "+text.Paste(at)+", or set XDG_STATE_HOME", "%s cannot be written: %v", at, err)
		}
		if perm := info.Mode().Perm(); at == dir && perm != 0o700 {
			return warn("chmod 700 "+text.Paste(dir), "%s has mode %04o, not 0700", dir, perm)
		}
	}
	if !exists(dirs[0]) {
		return ok("%s will be made by the first run, with mode 0700", dirs[0])
	}
	return ok("%s, mode 0700", dirs[0])
}

// holder returns who supervises the loop now, and whether anybody does.
func (l Place) holder() (who string, held bool, err error) {
	for _, lock := range l.Locks {
		raw, held, err := durable.Holder(lock)
		if err != nil {
			return "", false, err
		}
		if held {
			return l.Holder(raw), true, nil
		}
	}
	return "", false, nil
}

func (l Place) supervisor(context.Context) Result {
	who, held, err := l.holder()
	switch {
	case err != nil:
		return fail("look at the file that is named; a lock is a regular file that you may read", "%v", err)
	case held:
		return ok("runs now: %s", who)
	}
	return ok("nobody runs it")
}

// journal checks the hash chain of the journal, and by the anchor that no line is missing at its end.
func (l Place) journal(context.Context) Result {
	verify := "superloop events --verify --loop " + l.ID
	aside := fmt.Sprintf("%s; to start anew, move %s, %s and %s away", verify, text.Paste(l.Events), text.Paste(journal.Segments(l.Events)), text.Paste(l.Head))
	rep, err := journal.Verify(l.Events)
	none := errors.Is(err, fs.ErrNotExist)
	if err != nil && !none {
		return fail(verify, "%v", err)
	}
	bad := rep.FirstBad
	if bad != nil && !bad.Torn {
		return fail(aside, "%v", bad)
	}
	if err := journal.CheckHead(l.Events, l.Head); err != nil {
		return fail(aside, "%v", err)
	}
	if none {
		return ok("none, the loop has not run yet")
	}
	whole := render.Number(int(rep.Events), "event") + ", the chain is whole"
	if bad == nil {
		return ok("%s", whole)
	}
	if _, held, err := l.holder(); err == nil && held {
		return ok("%s; one more is being written", whole)
	}
	return warn("superloop run --loop "+l.ID+" copies it aside and goes on", "%s up to a torn last line, as a crash leaves it", whole)
}

// state checks whether state.json can be read, belongs to this loop, and is not ahead of the journal.
func (l Place) state(context.Context) Result {
	var v struct {
		LoopID    string `json:"loop_id"`
		Status    string `json:"status"`
		Iteration int    `json:"iteration"`
		Seq       int64  `json:"seq"`
	}
	anew := "nothing is lost, it is made from the journal: superloop run --loop " + l.ID + " writes it anew"
	verify := "superloop events --verify --loop " + l.ID
	data, err := door.ReadJSON(l.State, door.MaxReport)
	none := errors.Is(err, fs.ErrNotExist)
	if err == nil {
		err = text.Decode(data, &v)
	}
	// The check reads the journal after state.json. So a running supervisor, which appends meanwhile, cannot make
	// state.json look ahead of the journal.
	last, unread := journal.Tail(l.Events, 1)
	seq := int64(0)
	if len(last) > 0 {
		seq = last[0].Seq
	}
	detail := fmt.Sprintf("%s, iteration %d, as of event %d", v.Status, v.Iteration, v.Seq)
	switch {
	case none && unread == nil && len(last) > 0:
		return warn(anew, "there is no %s, but a journal", l.State)
	case none:
		return ok("none, the loop has not run yet")
	case err != nil:
		return warn(anew, "reading %s: %v", l.State, err)
	case v.LoopID != l.ID:
		return warn(anew, "%s is of the loop %q", l.State, v.LoopID)
	case unread != nil && !errors.Is(unread, fs.ErrNotExist):
		return warn(verify, "%s; the journal's end cannot be read", detail)
	case v.Seq > seq:
		return warn(verify, "%s, but the journal ends at event %d", detail, seq)
	}
	return ok("%s", detail)
}
