package gitcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
)

// taken lists the keys of the configuration that git gets in the view. Each is data: none names a program, a hook, a
// server or another file of configuration.
var taken = strings.Fields(`
	core.filemode core.symlinks core.ignorecase core.precomposeunicode core.protecthfs core.protectntfs core.longpaths
	core.autocrlf core.eol core.safecrlf core.checkroundtripencoding core.excludesfile core.attributesfile
	core.trustctime core.checkstat core.bigfilethreshold core.sparsecheckout core.sparsecheckoutcone index.sparse
	core.sharedrepository core.logallrefupdates core.compression core.loosecompression
	i18n.commitencoding user.name user.email user.useconfigonly author.name author.email committer.name committer.email
	extensions.objectformat extensions.refstorage`)

// ours is what every view says. git flushes what names a commit, because nothing else keeps a renamed ref from being
// empty after a power cut. The rest is flushed by those who know when it is complete, all at once (worktree.Repo.Flush).
const ours = `[core]
	bare = false
	fsync = reference
[gc]
	auto = 0
[maintenance]
	auto = false
[submodule]
	recurse = false
[advice]
	addEmbeddedRepo = false
`

// maxView bounds the configuration of a view, in bytes. One that is larger is written anew each time.
const maxView = 1 << 20

// noFetch stands for the remote of a partial clone. git then knows that objects may be missing, and cannot fetch them.
const noFetch = `[remote "no-fetch"]
	url = none:
	promisor = true
`

// links are the parts of a repository that a view shares with it. logs is made, because git could not make it behind a
// link that leads nowhere.
var links = []string{"objects", "refs", "logs", "packed-refs", "shallow", "reftable", "info/exclude", "info/attributes"}

// Refresh writes the view anew from what the configuration of the repository and of the user says now.
func (r *Repo) Refresh(ctx context.Context) error {
	out, err := r.Admin(ctx, "config", "--list", "-z")
	if err != nil {
		return fmt.Errorf("reading the configuration of git for %s: %w; see it by: git -C %s config --list", r.Top, err, r.Top)
	}
	all := parseConfig(out)
	if r.Dir == r.Common && all["core.bare"] == "true" && all["core.worktree"] == "" {
		return bare(r.Top)
	}
	r.SHA256 = all["extensions.objectformat"] == "sha256"
	if err := r.write([]byte(r.config(all))); err != nil {
		return fmt.Errorf("making superloop's view of the repository: %w", err)
	}
	return nil
}

// parseConfig parses the output of git config --list -z. The last value of a key counts. A key without a value is true.
func parseConfig(out []byte) map[string]string {
	all := map[string]string{}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		if key, v, ok := strings.Cut(rec, "\n"); ok {
			all[key] = v
		} else if rec != "" {
			all[rec] = "true"
		}
	}
	return all
}

// config returns the configuration of the view.
func (r *Repo) config(all map[string]string) string {
	r.named = nil
	home := value(r.environ, "HOME")
	folder := value(r.environ, "XDG_CONFIG_HOME")
	if folder == "" && home != "" {
		folder = filepath.Join(home, ".config")
	}
	for key, name := range map[string]string{"core.excludesfile": "ignore", "core.attributesfile": "attributes"} {
		v, set := all[key]
		if rest, ok := strings.CutPrefix(v, "~/"); ok && home != "" {
			all[key] = filepath.Join(home, rest)
		} else if !set && folder != "" {
			all[key] = filepath.Join(folder, "git", name)
		}
		if all[key] != "" {
			r.named = append(r.named, all[key])
		}
	}
	var b strings.Builder
	b.WriteString(ours)
	format := 0
	for _, key := range slices.Sorted(slices.Values(taken)) {
		v, set := all[key]
		if !set {
			continue
		}
		if strings.HasPrefix(key, "extensions.") {
			format = 1
		}
		section, name, _ := strings.Cut(key, ".")
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, quoted(v))
	}
	if all["extensions.partialclone"] != "" {
		format = 1
		b.WriteString("[extensions]\n\tpartialClone = no-fetch\n" + noFetch)
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryFormatVersion = %d\n", format)
	return b.String()
}

// quoted writes a value as git reads it.
func quoted(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(v) + `"`
}

// write makes the view, and replaces its configuration if it is another one. What lies in the place of a directory of
// the view is moved aside.
func (r *Repo) write(config []byte) error {
	for _, dir := range []string{filepath.Dir(r.View), r.View, filepath.Join(r.View, "info")} {
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			r.move(dir)
		}
	}
	if err := disk.MkdirAll("git-view", filepath.Join(r.View, "info"), 0o700); err != nil {
		return err
	}
	_ = disk.Mkdir("git-view", filepath.Join(r.Common, "logs"), 0o777) // it is there, or this user cannot commit anyway
	for _, name := range links {
		path, target := filepath.Join(r.View, name), filepath.Join(r.Common, name)
		if to, err := os.Readlink(path); err == nil && to == target {
			continue
		}
		if err := disk.Symlink("git-view", target, path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	file := filepath.Join(r.View, "config")
	if old, err := door.Read(file, maxView); err == nil && string(old) == string(config) {
		return nil
	}
	return disk.WriteProjection("git-view", file, config, 0o600)
}
