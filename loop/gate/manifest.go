package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// maxEmbedded bounds, in bytes, a status file that is repeated inside
// evidence.json.
const maxEmbedded = 1 << 20

// ManifestSpec names what evidence.json tells beside the artifacts.
type ManifestSpec struct {
	LoopID    string
	Iteration int
	SpecFile  string

	TestsMode         string
	TestCommands      []string
	ChecklistPatterns []string

	// File gives the path of a file of the loop: relative to the repository, or
	// absolute inside of it. A file that is not there is null in the manifest and
	// fails nothing, since its own gate has judged it.
	File func(name string) string
}

// Manifest is evidence.json: the artifacts that Evidence found, and the hashes
// of the files that the other gates left, as they are now. The keys of rlms are
// there for those who read the original's files; superloop has no such step.
func Manifest(ctx context.Context, root string, spec ManifestSpec, found EvidenceResult, at time.Time) ([]byte, error) {
	t, err := openTree(root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	var failed error
	recorded := func(file string, embed bool) recordedFile {
		f, err := t.recorded(ctx, file, embed)
		failed = errors.Join(failed, err)
		return f
	}
	// file adds what is told of a file of the loop, as keys that begin with what.
	file := func(m members, what, name string, embed, mtime bool) members {
		f := recorded(spec.File(name), embed)
		if embed {
			m = append(m, member{what, f.content})
		}
		m = append(m, member{what + "_file", f.rel}, member{what + "_sha256", f.sum})
		if mtime {
			m = append(m, member{what + "_mtime", f.mtime})
		}
		return m
	}
	specFile := recorded(spec.SpecFile, false)
	tests := file(members{{"mode", spec.TestsMode}, {"commands", orEmpty(spec.TestCommands)}}, "status", "test-status.json", true, true)
	lists := file(members{{"patterns", orEmpty(spec.ChecklistPatterns)}}, "status", "checklist-status.json", true, true)
	results := func(gate string) members {
		return file(file(nil, "status", gate+"-status.json", true, false), "results", gate+"-results.json", true, false)
	}
	m := members{
		{"generated_at", stamp(at)}, {"loop_id", spec.LoopID}, {"iteration", spec.Iteration},
		{"spec_file", spec.SpecFile}, {"spec_sha256", specFile.sum},
		{"ok", found.OK}, {"missing", orEmpty(found.Missing)},
		{"tests", file(tests, "output", "test-output.txt", false, true)},
		{"checklists", file(lists, "remaining", "checklist-remaining.md", false, true)},
		{"validation", results("validation")}, {"prerequisites", results("prerequisites")},
		{"rlms", members{{"index_file", nil}, {"index", nil}, {"index_sha256", nil}, {"index_mtime", nil}, {"latest", []string{}}}},
		{"artifacts", orEmpty(found.Artifacts)},
	}
	if failed != nil {
		return nil, fmt.Errorf("building the evidence manifest: %w", ctx.Err())
	}
	return pretty(m), nil
}

type recordedFile struct {
	rel     string
	sum     *string
	mtime   *int64
	content json.RawMessage
}

// recorded hashes a file that another gate left; one that is not there, or
// cannot be read, is all null. The error is only for ctx.
func (t *tree) recorded(ctx context.Context, file string, embed bool) (recordedFile, error) {
	out := recordedFile{rel: file}
	rel, err := t.rel(file)
	if err != nil {
		return out, nil
	}
	out.rel = rel
	h, err := t.hashFile(ctx, rel)
	if err != nil {
		return out, ctx.Err()
	}
	out.sum, out.mtime = &h.sum, &h.mtime
	if !embed {
		return out, nil
	}
	if data, err := t.read(rel, maxEmbedded); err == nil && json.Valid(data) {
		out.content = data
	}
	return out, nil
}
