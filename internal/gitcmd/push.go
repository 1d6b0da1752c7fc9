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
	env := slices.DeleteFunc(slices.Clone(r.environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "GIT_") && !slices.Contains(passed, name)
	})
	env = append(env, "GIT_DIR="+r.Dir, "GIT_COMMON_DIR="+r.View, "GIT_WORK_TREE="+r.Top, "GIT_OBJECT_DIRECTORY="+filepath.Join(r.Common, "objects"),
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=https:ssh:file")
	_, err := r.watched(ctx, r.Top, env, nil, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
		"push", "--quiet", "--no-verify", "--no-recurse-submodules", "--", url, refspec)
	return err
}
