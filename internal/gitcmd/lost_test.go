package gitcmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a LostError names as the next command brings the repository back where that is possible: of a linked work tree,
// and of a repository whose directory lies elsewhere.
func TestLost(t *testing.T) {
	t.Parallel()
	for _, loss := range []string{"rm .git", "echo gitdir: /nowhere >.git", "rm .git && git init -q", "rm .git && mkfifo .git"} {
		for kind, made := range map[string]string{"linked": "git init -q main && git -C main commit -q --allow-empty -m a && git -C main worktree add -q ../top", "separate": "git init -q --separate-git-dir=apart top"} {
			t.Run(kind+" "+loss, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				sh := func(in, command string) {
					t.Helper()
					cmd := exec.Command("sh", "-c", command)
					cmd.Dir = filepath.Join(dir, in)
					cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Fatalf("%s: %v\n%s", command, err, out)
					}
				}
				sh("", made)
				r, err := Open(t.Context(), filepath.Join(dir, "top"), t.TempDir(), os.Environ())
				if err != nil {
					t.Fatal(err)
				}
				if lost := r.Lost(); lost != nil {
					t.Fatal(lost)
				}
				sh("top", loss)
				lost := r.Lost()
				if lost == nil || !strings.Contains(lost.Why, "does not lead to "+r.Dir) {
					t.Fatal(lost)
				}
				sh("", lost.Fix)
				if lost := r.Lost(); lost != nil {
					t.Error(lost)
				}
				sh("top", "git status")
			})
		}
	}
}
