package undo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/durable"
)

// maxName leaves room for what a temporary file's name has besides; a name has at
// most 255 bytes.
const maxName = 200

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
	for i, f := range r.m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := string(f.Path)
		now, err := readFile(r.Repo, path, maxTracked)
		if err != nil && !errors.Is(err, errTooBig) {
			r.fail(path, err)
			continue
		}
		state := now.stateOr(err)
		there, err := r.occupied(path, state)
		if err != nil {
			r.fail(path, err)
			continue
		}
		left := r.after.Files[f.Path.key()]
		v := judge(facts{sealed: r.sealed, untouched: left == f.Sum, nowAbsent: !there, nowKept: state == f.Sum, nowLeft: state != "" && state == left, force: r.force})
		if r.note(path, v) {
			continue
		}
		b := bytesOf{mode: gitFile, perm: f.Mode, content: make([]byte, f.Size)}
		if strings.HasPrefix(f.Sum, gitLink) {
			b.mode, b.content = gitLink, []byte(f.Link)
		} else if _, err := pack.ReadAt(b.content, f.Offset); err != nil && !(errors.Is(err, io.EOF) && f.Size == 0) {
			r.fail(path, fmt.Errorf("what was kept is damaged: %w", err))
			continue
		} else if b.mode = f.Sum[:min(6, len(f.Sum))]; b.fileState() != f.Sum {
			r.fail(path, errors.New("what was kept is damaged"))
			continue
		}
		r.file(ctx, path, fmt.Sprintf("f%d", i), b, v)
	}
	return nil
}

// occupied reports whether something stands at a path, be it no file.
func (r *restorer) occupied(path, state string) (bool, error) {
	if state != "" {
		return true, nil
	}
	at, err := open(r.Repo, path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrLink) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer at.close()
	_, there, err := at.lstat()
	return there, err
}

// file puts one file or link in its place.
func (r *restorer) file(ctx context.Context, path, id string, b bytesOf, v verdict) {
	if err := r.putFile(ctx, path, id, b, v); err != nil {
		r.fail(path, err)
		return
	}
	r.out.Restored = append(r.out.Restored, path)
}

func (r *restorer) putFile(ctx context.Context, path, id string, b bytesOf, v verdict) error {
	at, err := r.parent(path, true)
	if err != nil {
		return err
	}
	defer at.close()
	st, there, err := at.lstat()
	if err != nil {
		return err
	}
	if v == aside && there {
		beside, err := r.moveAside(at)
		if err != nil {
			return err
		}
		r.out.Aside = append(r.out.Aside, Named{path, filepath.Join(filepath.Dir(path), beside)})
		there = false
	}
	if there && kindOf(uint32(st.Mode)) == isDir {
		return errors.New("a directory is in its place")
	}
	perm := os.FileMode(b.perm&0o777) | special(b.perm)
	if b.mode != gitLink && len(at.name) <= maxName {
		return r.Disk.WriteFile("undo-file", at.at(at.name), b.content, perm)
	}
	fresh := at.sibling(fmt.Sprintf(".superloop-undo-%s-%s.new", r.m.ID[len(r.m.ID)-8:], id))
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

// special are the bits of a mode that Go keeps elsewhere.
func special(perm uint32) os.FileMode {
	var m os.FileMode
	for bit, mode := range map[uint32]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if perm&bit != 0 {
			m |= mode
		}
	}
	return m
}
