package gate

import (
	"context"
	"fmt"
)

// Artifact is one piece of evidence as evidence.json lists it. SHA256, MTime
// (seconds since the epoch) and Size (bytes) are nil when it does not exist. A
// directory is hashed as a tree (see hashTree); its MTime is that of its newest
// file, Size the sum, Files their number.
type Artifact struct {
	Path   string  `json:"path"`
	Exists bool    `json:"exists"`
	SHA256 *string `json:"sha256"`
	MTime  *int64  `json:"mtime"`
	Gate   string  `json:"gate"`
	Size   *int64  `json:"size"`
	Kind   string  `json:"kind,omitempty"` // file, directory
	Files  int     `json:"files,omitempty"`
	Reason string  `json:"reason,omitempty"` // why it does not count as existing
	Detail string  `json:"detail,omitempty"`
}

// EvidenceResult is what the evidence gate found. Missing names the artifacts
// that are not there or could not be hashed, one sentence each.
type EvidenceResult struct {
	OK        bool
	Artifacts []Artifact
	Missing   []string
}

// Status is "ok" or "failed".
func (r EvidenceResult) Status() string {
	if r.OK {
		return StatusOK
	}
	return StatusFailed
}

// Evidence records the existence, SHA-256, size and time of each artifact. An
// artifact is a path or a pattern (see expand); a pattern without a match, a
// path outside the repository, an empty directory and a file that cannot be
// read are missing, and one missing artifact fails the gate. The error is for a
// repository that cannot be opened, and for ctx.
func Evidence(ctx context.Context, root string, artifacts []string) (EvidenceResult, error) {
	res := EvidenceResult{OK: true, Artifacts: []Artifact{}}
	t, err := openTree(root)
	if err != nil {
		return EvidenceResult{}, err
	}
	defer t.close()
	seen := map[string]bool{}
	for _, pattern := range artifacts {
		if pattern == "" {
			continue
		}
		paths, err := t.expand(pattern)
		if err == nil && len(paths) == 0 {
			err = &fault{reason: ReasonNotFound}
		}
		if err != nil {
			res.add(absent(pattern, err))
			continue
		}
		for _, p := range paths {
			if seen[p] {
				continue
			}
			seen[p] = true
			a, err := t.artifact(ctx, p)
			if ctx.Err() != nil {
				return EvidenceResult{}, fmt.Errorf("hashing %s: %w", p, ctx.Err())
			}
			if err != nil {
				a = absent(p, err)
			}
			res.add(a)
		}
	}
	return res, nil
}

func (r *EvidenceResult) add(a Artifact) {
	r.Artifacts = append(r.Artifacts, a)
	if a.Exists {
		return
	}
	r.OK = false
	why := pathText(a.Path) + ": " + a.Reason
	if a.Detail != "" {
		why += " (" + oneLine(a.Detail, maxItem) + ")"
	}
	r.Missing = append(r.Missing, why)
}

func absent(p string, err error) Artifact {
	f := faultOf(err)
	a := Artifact{Path: p, Gate: "evidence", Reason: f.reason}
	if f.err != nil {
		a.Detail = f.err.Error()
	}
	return a
}

// artifact hashes what is at p.
func (t *tree) artifact(ctx context.Context, p string) (Artifact, error) {
	a := Artifact{Path: p, Gate: "evidence", Kind: "file"}
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
	if err != nil {
		return a, err
	}
	a.Exists = true
	a.SHA256, a.MTime, a.Size = &h.sum, &h.mtime, &h.size
	return a, nil
}
