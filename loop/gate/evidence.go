package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
)

const maxTreeFiles = 100_000 // bounds the number of files in a directory that is one artifact

// Artifact is one piece of evidence in evidence.json. SHA256, MTime (seconds since the epoch) and Size (bytes) are nil
// if the artifact does not exist. The hash of a directory is that of hashTree. MTime is then the time of its newest
// file, Size the sum of the sizes, and Files the number of files.
type Artifact struct {
	Path   string  `json:"path"`
	Exists bool    `json:"exists"`
	SHA256 *string `json:"sha256"`
	MTime  *int64  `json:"mtime"`
	Gate   string  `json:"gate"`
	Size   *int64  `json:"size"`
	Kind   string  `json:"kind,omitempty"` // file, directory
	Files  int     `json:"files,omitempty"`
	Reason string  `json:"reason,omitempty"` // why the artifact does not count as existing
	Detail string  `json:"detail,omitempty"`
}

// EvidenceResult is the verdict of the evidence gate. Missing holds one sentence for each artifact that does not exist
// or could not be hashed.
type EvidenceResult struct {
	OK        bool
	Artifacts []Artifact
	Missing   []string
}

// Status returns "ok" or "failed".
func (r EvidenceResult) Status() string { return okOr(r.OK, StatusFailed) }

// Look adds the existence, SHA-256, size and time of each artifact below root. An artifact is a path or a pattern (see
// expand). A pattern without a match, a path outside the repository, an empty directory and an unreadable file count as
// missing. One missing artifact fails the gate. Look returns an error only if it cannot open the repository, or if ctx
// ends.
func (r *EvidenceResult) Look(ctx context.Context, root string, artifacts []string) error {
	t, err := openTree(root)
	if err != nil {
		return err
	}
	defer t.close()
	t.each(artifacts, func(p string, err error) bool {
		var a Artifact
		if err == nil {
			a, err = t.artifact(ctx, p)
		}
		if err != nil {
			f := faultOf(err)
			a = Artifact{Path: p, Gate: "evidence", Reason: f.reason, Detail: f.detail()}
			why := pathText(p) + ": " + a.Reason
			if a.Detail != "" {
				why += " (" + oneLine(a.Detail, maxItem) + ")"
			}
			r.Missing = append(r.Missing, why)
		}
		r.Artifacts = append(r.Artifacts, a)
		return ctx.Err() == nil
	})
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("hashing the evidence: %w", err)
	}
	r.OK = len(r.Missing) == 0
	return nil
}

// artifact hashes the file or directory at p.
func (t *tree) artifact(ctx context.Context, p string) (Artifact, error) {
	a := Artifact{Path: p, Gate: "evidence", Kind: "file", Exists: true}
	info, err := t.root.Stat(p)
	if err != nil {
		return a, err
	}
	var h hashed
	if info.IsDir() {
		a.Kind = "directory"
		h, err = t.hashTree(ctx, p)
		a.Files = h.files
	} else {
		h, err = t.hashFile(ctx, p)
	}
	a.SHA256, a.MTime, a.Size = &h.sum, &h.mtime, &h.size
	return a, err
}

type hashed struct {
	sum   string // SHA-256, hex
	mtime int64  // seconds since the epoch
	size  int64
	files int
}

// hashFile computes the SHA-256 of a regular file in constant memory. It refuses a large file that consists of holes.
func (t *tree) hashFile(ctx context.Context, p string) (hashed, error) {
	f, info, err := t.open(p)
	if err != nil {
		return hashed{}, err
	}
	defer f.Close()
	if door.MostlyHoles(info) {
		return hashed{}, &fault{ReasonTooLarge, fmt.Errorf("%d bytes, most of them holes", info.Size())}
	}
	sum := sha256.New()
	n, err := io.Copy(sum, untilDone{ctx, f})
	if err != nil {
		return hashed{}, faultOf(err)
	}
	return hashed{hex.EncodeToString(sum.Sum(nil)), info.ModTime().Unix(), n, 1}, nil
}

// hashTree returns the SHA-256 over one line for each file below dir, sorted by path. The line of a file is "sha256
// size path" with the path quoted. The line of a symbolic link has "link" and the quoted target instead of hash and
// size. hashTree skips directories named .git and .superloop, because they change without any change of the work.
func (t *tree) hashTree(ctx context.Context, dir string) (hashed, error) {
	var files []string
	links := map[string]bool{}
	err := fs.WalkDir(t.root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && p != dir && (e.Name() == ".git" || e.Name() == ".superloop"):
			return fs.SkipDir
		case e.IsDir():
			return ctx.Err()
		case len(files) == maxTreeFiles:
			return &fault{ReasonTooLarge, fmt.Errorf("more than %d files", maxTreeFiles)}
		}
		files, links[p] = append(files, p), e.Type()&fs.ModeSymlink != 0
		return nil
	})
	if err != nil {
		return hashed{}, err
	}
	if len(files) == 0 {
		return hashed{}, &fault{reason: ReasonEmptyDir}
	}
	slices.Sort(files)
	sum := sha256.New()
	out := hashed{files: len(files)}
	for _, p := range files {
		name := strings.TrimPrefix(p, dir+"/")
		if links[p] {
			target, err := t.root.Readlink(p)
			if err != nil {
				return hashed{}, err
			}
			fmt.Fprintf(sum, "link %q %q\n", target, name)
			continue
		}
		h, err := t.hashFile(ctx, p)
		if err != nil {
			return hashed{}, err
		}
		fmt.Fprintf(sum, "%s %d %q\n", h.sum, h.size, name)
		out.size, out.mtime = out.size+h.size, max(out.mtime, h.mtime)
	}
	out.sum = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

// untilDone is a reader that fails when its context has ended.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}
