package worktree

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/superloop/superloop/internal/durable"
)

// Checkout writes the files of a commit to dir, an empty directory outside of the work tree. dir is no repository. No
// filter runs, so a file of LFS is its pointer, and a submodule is an empty directory.
func (r *Repo) Checkout(ctx context.Context, commit, dir string) error {
	file := filepath.Join(r.git.View, "checkout-index")
	disk := durable.OS()
	remove := func() { _, _ = disk.Unlink("checkout-index", file), disk.Unlink("checkout-index", file+".lock") }
	remove() // of a killed superloop
	defer remove()
	own := r.git.WithIndex(file)
	if _, err := own.Run(ctx, nil, "read-tree", commit); err != nil {
		return fmt.Errorf("reading the files of commit %s: %w", commit, err)
	}
	if _, err := own.Run(ctx, nil, "checkout-index", "--all", "--prefix="+filepath.Clean(dir)+"/"); err != nil {
		return fmt.Errorf("checking out commit %s to %s: %w", commit, dir, err)
	}
	return nil
}
