package carry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/journal"
)

// Take makes this machine the one that has the loop: it brings the work tree, the journal and the rest to where the remote
// says that they are, and pushes that it has the loop. What this machine has and never pushed is kept if another machine has
// had the loop since, and counts otherwise. A *RefusedError stays until an operator starts the loop again. Nobody may use
// another Loop of the same place meanwhile.
func Take(ctx context.Context, c host.Claim, o Options) (*Loop, error) {
	if len(c.Keys) == 0 {
		return nil, errors.New("a loop without a key cannot go from machine to machine")
	}
	repo, err := PlaceOf(c.Remote, c.Loop, o.StateHome)
	if err != nil {
		return nil, err
	}
	l, err := at(repo, o)
	if err != nil {
		return nil, err
	}
	for dir, perm := range map[string]fs.FileMode{l.dir: 0o700, l.Repo: 0o700} {
		if err := o.Disk.MkdirAll("carried", dir, perm); err != nil {
			return nil, err
		}
	}
	was, err := readRecord(l.dir)
	if err != nil {
		return nil, err
	}
	l.rec = was
	l.rec.Claim = c
	if _, err := gitcmd.Top(l.Repo); err != nil || !exists(filepath.Join(l.Repo, ".git")) {
		if _, err := gitcmd.Scratch(ctx, l.Repo, "init", "--quiet", "--initial-branch=superloop/"+c.Loop); err != nil {
			return nil, fmt.Errorf("making a work tree for loop %s: %w", c.Loop, err)
		}
		l.rec.State, l.rec.Next = "", ""
	}
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	there, err := l.git.At(ctx, c.Remote, StateRef(c.Loop))
	if err != nil {
		return nil, fmt.Errorf("asking %s for loop %s: %w", text.Paste(c.Remote), c.Loop, err)
	}
	if there == "" {
		return nil, &RefusedError{fmt.Sprintf("%s has no loop %s", text.Paste(c.Remote), c.Loop)}
	}
	if l.rec.State == "" || there != l.rec.State && there != l.rec.Next {
		if err := l.restore(ctx, there, c); err != nil {
			return nil, err
		}
	}
	l.rec.State, l.rec.Next = there, ""
	m, err := l.metaOf(ctx, there)
	if err != nil {
		return nil, err
	}
	l.rec.Ended = m.Ended
	if err := l.fits(ctx, there, c); err != nil {
		return nil, err
	}
	if err := l.write(); err != nil {
		return nil, err
	}
	return l, l.push(ctx)
}

// restore brings all files to where a state has them.
func (l *Loop) restore(ctx context.Context, state string, c host.Claim) error {
	if err := l.git.Fetch(ctx, c.Remote, "+"+StateRef(c.Loop)+":"+StateRef(c.Loop)); err != nil {
		return fmt.Errorf("fetching loop %s: %w", c.Loop, err)
	}
	raw, err := l.git.Run(ctx, nil, "cat-file", "commit", state)
	if err != nil {
		return fmt.Errorf("reading the state of loop %s: %w", c.Loop, err)
	}
	_, head, err := authentic(state, raw, c)
	if err != nil {
		return err
	}
	if err := l.fits(ctx, state, c); err != nil { // before anything here changes
		return err
	}
	if l.rec.State != "" {
		if ref, err := l.keep(ctx); err != nil {
			l.o.Log.Warn("what this machine has of a loop could not be kept", zap.String("loop", c.Loop), zap.Error(err))
		} else {
			l.o.Log.Info("another machine has had a loop that ran here", zap.String("loop", c.Loop), zap.String("repo", l.Repo), zap.String("kept_under", ref))
		}
	}
	l.rec.State, l.rec.Next = "", ""
	if err := l.write(); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"update-ref", "refs/heads/superloop/" + c.Loop, head},
		{"symbolic-ref", "HEAD", "refs/heads/superloop/" + c.Loop},
		{"read-tree", "--reset", "-u", state + ":work"},
		{"clean", "--quiet", "-ffd", "-e", "/.superloop"},
		{"read-tree", state + ":index"},
	} {
		if _, err := l.git.Run(ctx, nil, args...); err != nil {
			return fmt.Errorf("bringing the work tree of loop %s here: %w", c.Loop, err)
		}
	}
	if err := l.files(ctx, state); err != nil {
		return fmt.Errorf("bringing the files of loop %s here: %w", c.Loop, err)
	}
	return nil
}

// files writes superloop's own files. Those of a loop that was here before are removed first, with whatever an agent has put
// among them.
func (l *Loop) files(ctx context.Context, state string) error {
	if err := l.o.Disk.MkdirAll("carried", l.paths.Private, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(l.paths.Private)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !stays("private", e.Name()) {
			if err := l.o.Disk.RemoveAll("carried", filepath.Join(l.paths.Private, e.Name())); err != nil {
				return err
			}
		}
	}
	if info, err := os.Lstat(l.paths.Super); err == nil {
		if info.IsDir() {
			err = l.o.Disk.RemoveTree("carried", l.Repo, filepath.Base(l.paths.Super))
		} else {
			err = l.o.Disk.Remove("carried", l.paths.Super)
		}
		if err != nil {
			return err
		}
	}
	for part, dir := range map[string]string{"super": l.paths.Super, "loop": l.paths.Loop, "private": l.paths.Private} {
		if err := l.part(ctx, state, part, dir); err != nil {
			return err
		}
	}
	return nil
}

// part writes the files below one directory of a state.
func (l *Loop) part(ctx context.Context, state, part, dir string) error {
	perm := fs.FileMode(0o755)
	if part == "private" {
		perm = 0o700
	}
	out, err := l.git.Run(ctx, nil, "ls-tree", "-r", "-z", state, "--", part+"/")
	if err != nil {
		return err
	}
	for rec := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, name, _ := strings.Cut(rec, "\t")
		fields := strings.Fields(info)
		rel, below := strings.CutPrefix(name, part+"/")
		if !below || len(fields) != 3 || fields[1] != "blob" {
			continue
		}
		data, err := l.git.Run(ctx, nil, "cat-file", "blob", fields[2])
		if err != nil {
			return err
		}
		full := filepath.Join(dir, filepath.FromSlash(rel))
		if err := l.o.Disk.MkdirAll("carried", filepath.Dir(full), perm); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if part == "private" || strings.HasPrefix(rel, "events.jsonl") {
			mode = 0o600
		} else if fields[0] == "100755" {
			mode = 0o755
		}
		if err := l.o.Disk.WriteFile("carried", full, data, mode); err != nil {
			return err
		}
	}
	return nil
}

// fits returns an error unless a state belongs to the start that was signed, with the configuration that was signed. The
// configuration is then trusted here, as a person does it by superloop config trust.
func (l *Loop) fits(ctx context.Context, state string, c host.Claim) error {
	m, err := l.metaOf(ctx, state)
	if err != nil {
		return err
	}
	switch {
	case m.Workflow != c.Workflow || m.Loop != c.Loop:
		return &RefusedError{fmt.Sprintf("%s has the state of %s and not of %s", text.Paste(c.Remote), m.Workflow, c.Workflow)}
	case m.Grant != c.Grant:
		return &RefusedError{fmt.Sprintf("loop %s was started anew since, by another signature", c.Loop)}
	}
	data, ok, err := l.blobAt(ctx, state, "super/config.json")
	if err != nil || !ok {
		return errors.Join(err, &RefusedError{fmt.Sprintf("the state of loop %s has no configuration", c.Loop)})
	}
	path := filepath.Join(l.paths.Super, "config.json")
	here := l.rec.State == state // and not only in git
	if here {
		if data, err = door.Read(path, maxSmall); err != nil {
			return fmt.Errorf("reading the configuration of loop %s: %w", c.Loop, err)
		}
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != c.Digest {
		return &RefusedError{fmt.Sprintf("the configuration of loop %s has the digest %x, and %s has signed the start with %.12s; this machine runs no other", c.Loop, sum[:6], c.By, c.Digest)}
	}
	if !here {
		return nil
	}
	if seq, err := l.seq(); err != nil || seq < c.Since {
		return errors.Join(err, &RefusedError{fmt.Sprintf("the journal of loop %s ends with event %d, and the fleet knows %d: somebody has put an old state in its place", c.Loop, seq, c.Since)})
	}
	cfg, err := config.LoadBytes(path, bytes.Clone(data))
	if err != nil {
		return err
	}
	section, err := trust.Of(cfg)
	if err != nil {
		return err
	}
	store := trust.Store{Disk: l.o.Disk, Path: l.paths.Trust(path)}
	if pin, err := store.Load(); err == nil && pin.Digest == section.Digest() {
		return nil
	}
	_, err = store.Save(trust.Pin{Section: section, At: l.o.Now(), How: trust.Trusted, By: c.By, Config: path})
	return err
}

// metaOf reads what a state says of itself.
func (l *Loop) metaOf(ctx context.Context, state string) (m meta, err error) {
	data, ok, err := l.blobAt(ctx, state, "meta.json")
	if err == nil && ok {
		err = text.Decode(data, &m)
	}
	if err != nil {
		return m, fmt.Errorf("reading the state %.12s: %w", state, err)
	}
	if !ok || m.Version != metaVersion {
		return m, &RefusedError{fmt.Sprintf("the state %.12s is none that this superloop can read", state)}
	}
	return m, nil
}

// seq returns the number of the last event of the journal here.
func (l *Loop) seq() (int64, error) {
	if !exists(l.paths.Events()) {
		return 0, nil
	}
	last, err := journal.Tail(l.paths.Events(), 1)
	if err != nil || len(last) == 0 {
		return 0, err
	}
	return last[0].Seq, nil
}
