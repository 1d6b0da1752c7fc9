package gitcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Remotes returns the addresses to which the remotes of the repository are pushed, by their names. An agent can have
// written them.
func (r *Repo) Remotes(ctx context.Context) (map[string]string, error) {
	out, err := r.Admin(ctx, "config", "--list", "-z")
	if err != nil {
		return nil, fmt.Errorf("reading the remotes of %s: %w", r.Top, err)
	}
	list := map[string]string{}
	all := parseConfig(out)
	for _, last := range []string{".url", ".pushurl"} { // the second wins
		for key, url := range all {
			name, is := strings.CutPrefix(key, "remote.")
			if name, ends := strings.CutSuffix(name, last); is && ends && url != "" {
				list[name] = url
			}
		}
	}
	return list, nil
}

// passed are the variables GIT_* of the user that say how to reach a server and which settings of the user count.
var passed = strings.Fields("GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_ASKPASS GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM")

// Push pushes one refspec to an address by https, ssh or as a path, with the environment, the settings and so the
// credentials of the user, which no other call of git gets. The configuration of the repository counts no more than in Run:
// it has no credential helper, no address to rewrite, no hook. Only a caller that acts for an operator may push.
func (r *Repo) Push(ctx context.Context, url, refspec string) error {
	_, err := r.remote(ctx, "https:ssh:file", "push", "--quiet", "--no-verify", "--no-recurse-submodules", "--", url, refspec)
	return err
}

// carried are the protocols by which loops go from machine to machine. None of them starts a program that the address names.
const carried = "https:http:ssh:git:file"

// Swap pushes the commit new to ref, and to each of the refs also, as Push does. It does so only if ref has the value old
// there; "" stands for a ref that does not exist. All refs change, or none.
func (r *Repo) Swap(ctx context.Context, url, ref, old, new string, also ...string) error {
	args := []string{"push", "--quiet", "--atomic", "--no-verify", "--no-recurse-submodules", "--force-with-lease=" + ref + ":" + old, "--", url, new + ":" + ref}
	_, err := r.remote(ctx, carried, append(args, also...)...)
	return err
}

// At returns the commit that ref has at an address, "" if there is no such ref.
func (r *Repo) At(ctx context.Context, url, ref string) (string, error) {
	all, err := r.Refs(ctx, url, ref)
	return all[ref], err
}

// Refs returns the refs of a pattern at an address, with what they point to.
func (r *Repo) Refs(ctx context.Context, url, pattern string) (map[string]string, error) {
	out, err := r.remote(ctx, carried, "ls-remote", "--quiet", "--refs", "--", url, pattern)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		sha, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		all[name] = sha
	}
	return all, nil
}

// Fetch fetches what refspecs name from an address, with no tags, and moves no other ref.
func (r *Repo) Fetch(ctx context.Context, url string, refspecs ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-gc", "--", url}
	_, err := r.remote(ctx, carried, append(args, refspecs...)...)
	return err
}

// remote runs a subcommand that talks with another repository.
func (r *Repo) remote(ctx context.Context, protocols string, args ...string) ([]byte, error) {
	env := slices.DeleteFunc(slices.Clone(r.environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "GIT_") && !slices.Contains(passed, name)
	})
	env = append(env, "GIT_DIR="+r.Dir, "GIT_COMMON_DIR="+r.View, "GIT_WORK_TREE="+r.Top, "GIT_OBJECT_DIRECTORY="+filepath.Join(r.Common, "objects"),
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL="+protocols)
	return r.watched(ctx, r.Top, env, nil, append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}, args...)...)
}
