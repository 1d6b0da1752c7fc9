package undo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/durable"
)

// packer copies single files into one file of the set, the pack, one after another.
type packer struct {
	repo string
	m    *manifest
	room *Caps
	file *durable.File
	at   int64
}

// add keeps one file or link. What cannot be kept is named, but for what is too big: that is errTooBig; other errors
// are about the private directory only.
func (p *packer) add(rel string, limit int64) error {
	if p.room.Files <= 0 {
		p.m.skip(rel, errTooMany.Error())
		return nil
	}
	b, err := readFile(p.repo, rel, limit)
	switch {
	case errors.Is(err, errTooBig):
		return errTooBig
	case err != nil:
		p.m.skip(rel, why(err))
		return nil
	case b.mode == gitEmpty: // it is gone
		return nil
	}
	p.room.Files--
	f := looseFile{Path: rawPath(rel), Mode: b.perm, Offset: p.at, Sum: b.state()}
	if b.mode == gitLink {
		f.Link = rawPath(b.content)
		p.m.Files = append(p.m.Files, f)
		return nil
	}
	if _, err := p.file.Write(b.content); err != nil {
		return err
	}
	f.Size = int64(len(b.content))
	p.at += f.Size
	p.room.Copied -= f.Size
	p.m.Files = append(p.m.Files, f)
	return nil
}

// keepLoose keeps the files that git neither knows nor ignores.
func keepLoose(ctx context.Context, g *git, targets []Target, pack *packer) error {
	m := pack.m
	if !g.found {
		m.skip(".", "without git nobody can tell which files are the person's; only what the command names is kept")
		return nil
	}
	list, err := g.untracked(ctx, false)
	if err != nil {
		return err
	}
	for _, p := range list {
		if strings.HasSuffix(p, "/") {
			m.skip(p, "it is a repository of its own")
			continue
		}
		if inTree(p, targets) {
			continue
		}
		switch err := pack.add(p, pack.room.Copied); {
		case errors.Is(err, errTooBig):
			m.skip(p, fmt.Sprintf("there is room for another %s only", size(pack.room.Copied)))
		case err != nil:
			return err
		}
	}
	return nil
}

// inTree reports whether a path lies in a target, which is kept as a whole.
func inTree(p string, targets []Target) bool {
	return slices.ContainsFunc(targets, func(t Target) bool { return p == t.Path || strings.HasPrefix(p, path.Clean(t.Path)+"/") })
}
