package undo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/superloop/superloop/internal/durable"
)

// maxName leaves room for what a temporary file's name has besides; a name has at most 255 bytes.
const maxName = 200

var errDamaged = errors.New("what was kept is damaged")

// loose puts the untracked files back.
func (r *restorer) loose(ctx context.Context) error {
	if len(r.m.Files) == 0 {
		return nil
	}
	pack, err := durable.Open(r.path(r.m.ID, packFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a set of links has none
		return err
	}
	defer pack.Close()
	for _, f := range r.m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := string(f.Path)
		now, state, err := r.stateAt(path)
		if err != nil {
			r.fail(path, err)
			continue
		}
		left := r.after.Files[f.Path.key()]
		v := judge(facts{sealed: r.sealed, untouched: left == f.Sum, nowAbsent: !now.there, nowKept: state == f.Sum, nowLeft: state != "" && state == left, force: r.force})
		if r.note(path, v) {
			continue
		}
		b := bytesOf{mode: f.Sum[:min(6, len(f.Sum))], perm: f.Mode, content: make([]byte, f.Size)}
		if b.mode == gitLink {
			b.content = []byte(f.Link)
		} else if _, err := pack.ReadAt(b.content, f.Offset); err != nil && !(errors.Is(err, io.EOF) && f.Size == 0) {
			r.fail(path, fmt.Errorf("%w: %w", errDamaged, err))
			continue
		}
		if b.state() != f.Sum {
			r.fail(path, errDamaged)
			continue
		}
		r.file(ctx, path, b, v)
	}
	return nil
}

// file puts one file or link in its place.
func (r *restorer) file(ctx context.Context, path string, b bytesOf, v verdict) {
	if err := r.putFile(ctx, path, b, v); err != nil {
		r.fail(path, err)
		return
	}
	r.out.Restored = append(r.out.Restored, path)
}

func (r *restorer) putFile(ctx context.Context, path string, b bytesOf, v verdict) error {
	at, err := r.parent(path, true)
	if err != nil {
		return err
	}
	defer at.close()
	there, err := at.kind()
	switch {
	case err != nil:
		return err
	case v == aside && there != isMissing:
		if err := r.moveAside(at, path); err != nil {
			return err
		}
	case there == isDir:
		return errors.New("a directory is in its place")
	}
	perm := os.FileMode(b.perm & 0o777)
	for bit, mode := range map[uint32]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if b.perm&bit != 0 {
			perm |= mode
		}
	}
	if b.mode != gitLink && len(at.name) <= maxName {
		return r.Disk.WriteFile("undo-file", at.at(at.name), b.content, perm)
	}
	fresh := at.sibling(r.name("f", "new"))
	if err := fresh.remove(ctx); err != nil {
		return err
	}
	if b.mode == gitLink {
		err = at.run(ctx, "ln", "-s", "--", string(b.content), "./"+fresh.name)
	} else {
		err = r.Disk.WriteFile("undo-file", at.at(fresh.name), b.content, perm)
	}
	if err != nil {
		return err
	}
	return r.Disk.Rename("undo-put", at.at(fresh.name), at.at(at.name))
}
