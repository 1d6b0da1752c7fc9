package worktree

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A power cut damages the repositories of submodules, too. They are healed, or the command that fetches one anew is
// named and works; superloop's commits go on.
func TestHealSubmodules(t *testing.T) {
	t.Parallel()
	const anew = "the repository of the submodule dir/lib is damaged: "
	for name, c := range map[string]struct {
		damage  func(b box)
		did     string
		damaged bool
	}{
		"sound":           {damage: func(box) {}},
		"index":           {damage: func(b box) { b.cut(".git/modules/dir/lib/index", 20) }, did: "in the submodule dir/lib: "},
		"branch":          {damage: func(b box) { b.cut(".git/modules/dir/lib/refs/heads/main", 0) }, did: "in the submodule dir/lib: took HEAD back"},
		"not checked out": {damage: func(b box) { b.rm("dir/lib"); b.rm(".git/modules/dir/lib/HEAD") }},
		"HEAD":            {damage: func(b box) { b.cut(".git/modules/dir/lib/HEAD", 0) }, damaged: true},
		"HEAD gone":       {damage: func(b box) { b.rm(".git/modules/dir/lib/HEAD") }, damaged: true},
		"the file .git":   {damage: func(b box) { b.cut("dir/lib/.git", 0) }, damaged: true},
		"all gone":        {damage: func(b box) { b.rm(".git/modules/dir/lib") }, damaged: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lib := newBox(t)
			lib.put("f", "1")
			lib.commitAll("lib")
			b := newBox(t)
			b.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.dir, "dir/lib")
			b.commitAll("all")
			b.in("dir/lib").put("f", "an agent's work")
			r := b.open()
			c.damage(b)
			got, err := r.Heal(t.Context(), unclean())
			must(t, err)
			if did := strings.Join(got.Did, "; "); !strings.Contains(did, c.did) || c.did == "" && did != "" {
				t.Errorf("did %q", did)
			}
			if said := strings.Join(got.Damaged, "; "); c.damaged != strings.HasPrefix(said, anew) {
				t.Errorf("damaged: %q", said)
			}
			b.put("more", "x")
			commit(t, r, request(1))
			if !c.damaged {
				if c.did != "" {
					equal(t, "status", b.in("dir/lib").git("status", "--porcelain"), " M f")
				}
				return
			}
			_, command, _ := strings.Cut(got.Damaged[0], "keep what is there: ")
			sh := exec.Command("sh", "-c", command)
			sh.Env = append(b.env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always")
			if out, err := sh.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
			equal(t, "fetched anew", b.in("dir/lib").git("status", "--porcelain"), "")
			kept, err := os.ReadFile(b.dir + "-dir-lib/f")
			must(t, err)
			equal(t, "the work is kept", string(kept), "an agent's work")
			if got, err := r.Heal(t.Context(), unclean()); len(got.Did)+len(got.Damaged) > 0 || err != nil {
				t.Errorf("once more: %+v %v", got, err)
			}
		})
	}
}
