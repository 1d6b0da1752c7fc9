package undo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is read of a repository without git.
const (
	maxConfig = 64 << 10
	maxPacked = 4 << 20
)

// sinceHead finds the repository and what differs in it from HEAD. ok is false if
// there is none. Where it can it calls git once, and meanwhile makes the set's ref
// at HEAD, which is all if nothing differs.
func (s Store) sinceHead(ctx context.Context, id string) (g *git, changes []difference, ok bool, err error) {
	direct, ok := readGit(s.Repo)
	if !ok {
		return s.compare(ctx, nil, "")
	}
	anchored := make(chan error, 1)
	go func() { anchored <- s.anchor(id, direct.head) }()
	g, changes, ok, err = s.compare(ctx, direct, "")
	failed := <-anchored
	switch {
	case err != nil:
		return nil, nil, false, err
	case errors.Is(failed, ErrLink): // git may go through a link
		return g, changes, ok, nil
	case failed != nil:
		return nil, nil, false, failed
	case g == direct:
		g.anchored = true
		return g, changes, ok, nil
	}
	return g, changes, ok, s.unanchor(id) // there may be no repository that it is a ref of
}

// compare says what differs from a commit, or from HEAD if it is "", asking git as
// it was read directly, or else, and whenever git does not like something about
// that, after openGit, which knows what to say then.
func (s Store) compare(ctx context.Context, direct *git, commit string) (g *git, changes []difference, ok bool, err error) {
	if direct != nil {
		changes, err := direct.differences(ctx, cmp.Or(commit, direct.head))
		if err == nil || ctx.Err() != nil {
			return direct, changes, true, err
		}
	}
	g, ok, err = openGit(ctx, s.Repo)
	if err != nil || !ok {
		return g, nil, false, err
	}
	changes, err = g.differences(ctx, cmp.Or(commit, g.head))
	return g, changes, true, err
}

// readGit reads what openGit asks git for, if the repository is of the plain kind
// and has a commit; else ok is false. What it takes for HEAD may be outdated or
// wrong: git is then told to compare with that, and judges it. Neither may a file
// system that changes meanwhile, nor a repository that was made to be read
// wrongly, lead to more than a refusal or another difference.
func readGit(repo string) (g *git, ok bool) {
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "GIT_CONFIG_COUNT=") || strings.HasPrefix(e, "GIT_CONFIG_PARAMETERS=") { // may hold filters
			return nil, false
		}
	}
	config, err := readIn(repo, ".git/config", maxConfig)
	if err != nil || !plain(config) {
		return nil, false
	}
	head, err := readHead(repo)
	if err != nil {
		return nil, false
	}
	g = newGit(repo)
	g.head, g.sha256, g.direct = head, len(head) == 64, true
	return g, true
}

// plain reports whether a repository's configuration neither defines a filter nor
// moves anything to where git would look for it in vain. A section cannot be
// written without its name, so it is enough that the names are not there.
func plain(config []byte) bool {
	low := bytes.ToLower(config)
	for _, word := range []string{"filter", "include", "worktree", "refstorage"} {
		if bytes.Contains(low, []byte(word)) {
			return false
		}
	}
	return true
}

var errNoHead = errors.New("HEAD is no commit that can be read without git")

// readHead gives the commit that HEAD is at.
func readHead(repo string) (string, error) {
	text, err := readIn(repo, ".git/HEAD", maxConfig)
	if err != nil {
		return "", err
	}
	ref, isRef := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), "ref: ")
	if !isRef {
		return commitID(ref)
	}
	if !strings.HasPrefix(ref, "refs/heads/") || strings.Contains(ref, "..") || strings.ContainsAny(ref, "\n\x00") {
		return "", errNoHead
	}
	text, err = readIn(repo, ".git/"+ref, maxConfig)
	if err == nil {
		return commitID(strings.TrimSuffix(string(text), "\n"))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text, err = readIn(repo, ".git/packed-refs", maxPacked)
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if id, name, _ := strings.Cut(line, " "); name == ref {
			return commitID(id)
		}
	}
	return "", errNoHead
}

func commitID(s string) (string, error) {
	if len(s) != 40 && len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
		return "", errNoHead
	}
	return s, nil
}

// readIn reads a file of the repository, without following a link.
func readIn(repo, rel string, limit int64) ([]byte, error) {
	at, err := open(repo, rel)
	if err != nil {
		return nil, err
	}
	defer at.close()
	return at.read(limit)
}

// withoutPersonal is the environment in which git reads no configuration but the
// repository's: the person's may define filters. What it says of line ends is
// missed, too; then a file may look changed that is not, never the other way
// round.
func withoutPersonal() []string {
	return []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=/dev/null", "XDG_CONFIG_HOME=/dev/null"}
}

// anchor gives a commit that is there a set's ref, so that git does not collect
// it, in the form in which git itself keeps a ref. No other process writes a ref
// of this name.
func (s Store) anchor(id, commit string) error {
	at, err := s.parent(".git/"+refBase+id, true)
	if err != nil {
		return err
	}
	defer at.close()
	// Flushed: a ref that a power cut has emptied would be in the person's way.
	return s.Disk.WriteFile("undo-ref", at.at(id), []byte(commit+"\n"), 0o644)
}

// unanchor removes what anchor has made, or has begun to write: git does not look
// at names that begin with a dot.
func (s Store) unanchor(id string) error {
	at, err := open(s.Repo, ".git/"+refBase+id)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrLink) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.close()
	names, err := at.dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == id || strings.HasPrefix(n, "."+id+".") {
			if err := s.Disk.Remove("undo-ref", at.at(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
