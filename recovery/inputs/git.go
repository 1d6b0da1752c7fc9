package inputs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/proc"
)

// git is a directory in which git is asked for facts.
type git string

func (g git) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return proc.Git(ctx, string(g), stdin, args...)
}

type headInfo struct{ commit, format string }

// head finds the commit that HEAD is at. ErrNoHead: there is none, or no repository, or no git.
func (g git) head(ctx context.Context) (headInfo, error) {
	out, err := g.run(ctx, nil, "rev-parse", "--show-object-format", "--verify", "HEAD^{commit}")
	var failed *proc.ToolError
	if errors.As(err, &failed) && ctx.Err() == nil && (failed.Code == 128 || failed.Code == -1 && errors.Is(err, os.ErrNotExist)) {
		return headInfo{}, fmt.Errorf("%w: %s", ErrNoHead, strings.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return headInfo{}, err
	}
	f := strings.Fields(string(out))
	if len(f) != 2 || f[0] != formatSHA1 && f[0] != formatSHA256 {
		return headInfo{}, fmt.Errorf("git rev-parse answered %q; git 2.30 or newer is needed", out)
	}
	return headInfo{commit: f[1], format: f[0]}, nil
}

// files lists a commit's files below the directory; more: there are too many.
func (g git) files(ctx context.Context, commit string) (list []known, more bool, err error) {
	out, err := g.run(ctx, nil, "ls-tree", "-r", "-z", commit)
	if err != nil {
		return nil, false, err
	}
	list = make([]known, 0, min(maxFiles, bytes.Count(out, []byte{0})))
	for len(out) > 0 {
		var rec []byte
		rec, out, _ = bytes.Cut(out, []byte{0})
		meta, name, ok := bytes.Cut(rec, []byte{'\t'})
		f := strings.Fields(string(meta))
		if !ok || len(f) != 3 {
			return nil, false, fmt.Errorf("git ls-tree printed the record %q", rec)
		}
		if f[1] != "blob" {
			continue // a submodule is a repository of its own
		}
		if len(list) >= maxFiles {
			return list, true, nil
		}
		k := known{path: string(name), kind: regular, exec: f[0] == "100755", id: f[2]}
		if f[0] == "120000" {
			k.kind = link
		}
		list = append(list, k)
	}
	return list, false, nil
}

// contents fills in the content of the wanted files, as far as there is room, and says how much that is.
func (g git) contents(ctx context.Context, files []known, wanted []int) (int64, error) {
	if len(wanted) == 0 {
		return 0, nil
	}
	var ids bytes.Buffer
	for _, i := range wanted {
		ids.WriteString(files[i].id + "\n")
	}
	sizes, err := g.run(ctx, ids.Bytes(), "cat-file", "--batch-check")
	if err != nil {
		return 0, err
	}
	ids.Reset()
	var fitting []int
	var total int64
	lines := strings.Split(string(sizes), "\n")
	for n, i := range wanted {
		if n >= len(lines) {
			break
		}
		f := strings.Fields(lines[n])
		if len(f) != 3 || f[1] != "blob" {
			continue // a missing object: the baseline has its id
		}
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || size > maxText || total+size > maxStored {
			continue
		}
		total += size
		files[i].size = size
		fitting = append(fitting, i)
		ids.WriteString(files[i].id + "\n")
	}
	out, err := g.run(ctx, ids.Bytes(), "cat-file", "--batch")
	if err != nil {
		return 0, err
	}
	for _, i := range fitting {
		head, rest, ok := bytes.Cut(out, []byte{'\n'})
		size := files[i].size
		if !ok || !bytes.HasPrefix(head, []byte(files[i].id)) || int64(len(rest)) <= size {
			return 0, fmt.Errorf("git cat-file printed %q for %s", head, files[i].path)
		}
		files[i].text, files[i].stored = rest[:size:size], true
		out = rest[size+1:]
	}
	return total, nil
}

// blob reads one object.
func (g git) blob(ctx context.Context, id string) ([]byte, error) {
	return g.run(ctx, nil, "cat-file", "blob", id)
}

// gitHooks adds the hooks that git would run; it does not run its examples.
func gitHooks(c call, dirs []string) {
	for _, d := range dirs {
		for _, f := range c.expand(d, ".git/hooks/*") {
			if path.Ext(f) != ".sample" {
				c.whole(f, c.name)
			}
		}
	}
}

// gitConfig takes out of .git/config what can make git run a program or talk to another place. Branches and the like
// come and go.
func gitConfig(text []byte) ([]part, bool) {
	var b strings.Builder
	section, keep := "", true
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case strings.HasSuffix(line, `\`):
			return nil, false // what follows is not what it looks like
		case line[0] == '[':
			section = line
			keep = !plainSection(line)
			if !strings.HasSuffix(line, "]") || strings.Count(line, "]") > 1 {
				return nil, false // there is more on the line
			}
			continue
		case strings.EqualFold(section, "[core]"):
			key, _, _ := strings.Cut(strings.ToLower(line), "=")
			if among(strings.TrimSpace(key), "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks untrackedcache splitindex") {
				continue
			}
		}
		if keep {
			b.WriteString(section + " " + line + "\n")
		}
	}
	return settings(b.String()), true
}

func plainSection(header string) bool {
	return slices.ContainsFunc([]string{`[branch "`, "[user]", "[color]", "[gc]", "[init]", "[advice]"}, func(plain string) bool {
		return strings.HasPrefix(strings.ToLower(header), plain)
	})
}
