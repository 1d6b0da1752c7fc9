package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// maxEmbedded bounds a status file that is repeated inside evidence.json.
const maxEmbedded = 1 << 20

// ManifestSpec names what evidence.json tells beside the artifacts. Files are
// relative to the repository, or absolute inside of it; one that is empty or
// not there is null in the manifest and fails nothing, since its own gate has
// judged it.
type ManifestSpec struct {
	LoopID    string
	Iteration int
	SpecFile  string

	TestsMode      string
	TestCommands   []string
	TestStatusFile string
	TestOutputFile string

	ChecklistPatterns      []string
	ChecklistStatusFile    string
	ChecklistRemainingFile string

	ValidationStatusFile  string
	ValidationResultsFile string

	PrerequisitesStatusFile  string
	PrerequisitesResultsFile string
}

type manifest struct {
	GeneratedAt   string               `json:"generated_at"`
	LoopID        string               `json:"loop_id"`
	Iteration     int                  `json:"iteration"`
	SpecFile      string               `json:"spec_file"`
	SpecSHA256    *string              `json:"spec_sha256"`
	OK            bool                 `json:"ok"`
	Missing       []string             `json:"missing"`
	Tests         manifestTests        `json:"tests"`
	Checklists    manifestChecklists   `json:"checklists"`
	Validation    manifestStatusResult `json:"validation"`
	Prerequisites manifestStatusResult `json:"prerequisites"`
	RLMS          manifestRLMS         `json:"rlms"`
	Artifacts     []Artifact           `json:"artifacts"`
}

type manifestTests struct {
	Mode         string          `json:"mode"`
	Commands     []string        `json:"commands"`
	Status       json.RawMessage `json:"status"`
	StatusFile   string          `json:"status_file"`
	StatusSHA256 *string         `json:"status_sha256"`
	StatusMTime  *int64          `json:"status_mtime"`
	OutputFile   string          `json:"output_file"`
	OutputSHA256 *string         `json:"output_sha256"`
	OutputMTime  *int64          `json:"output_mtime"`
}

type manifestChecklists struct {
	Patterns        []string        `json:"patterns"`
	Status          json.RawMessage `json:"status"`
	StatusFile      string          `json:"status_file"`
	StatusSHA256    *string         `json:"status_sha256"`
	StatusMTime     *int64          `json:"status_mtime"`
	RemainingFile   string          `json:"remaining_file"`
	RemainingSHA256 *string         `json:"remaining_sha256"`
	RemainingMTime  *int64          `json:"remaining_mtime"`
}

type manifestStatusResult struct {
	Status        json.RawMessage `json:"status"`
	StatusFile    string          `json:"status_file"`
	StatusSHA256  *string         `json:"status_sha256"`
	Results       json.RawMessage `json:"results"`
	ResultsFile   string          `json:"results_file"`
	ResultsSHA256 *string         `json:"results_sha256"`
}

// manifestRLMS keeps the keys that readers of the original's files look for;
// superloop has no such step and leaves them empty.
type manifestRLMS struct {
	IndexFile   *string  `json:"index_file"`
	Index       *string  `json:"index"`
	IndexSHA256 *string  `json:"index_sha256"`
	IndexMTime  *int64   `json:"index_mtime"`
	Latest      []string `json:"latest"`
}

// Manifest is evidence.json: the artifacts that Evidence found, and the hashes
// of the files that the other gates left, as they are now.
func Manifest(ctx context.Context, root string, spec ManifestSpec, found EvidenceResult, at time.Time) ([]byte, error) {
	t, err := openTree(root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	m := manifest{
		GeneratedAt: stamp(at), LoopID: spec.LoopID, Iteration: spec.Iteration, SpecFile: spec.SpecFile,
		OK: found.OK, Missing: orEmpty(found.Missing), Artifacts: orEmpty(found.Artifacts),
		RLMS: manifestRLMS{Latest: []string{}},
	}
	var mtime *int64 // of a file whose time the manifest does not tell
	var failed error
	note := func(file string, rel *string, sum **string, mt **int64, content *json.RawMessage) {
		f, err := t.recorded(ctx, file, content != nil)
		if err != nil && failed == nil {
			failed = err
		}
		*rel, *sum, *mt = f.rel, f.sum, f.mtime
		if content != nil {
			*content = f.content
		}
	}
	var specRel string
	note(spec.SpecFile, &specRel, &m.SpecSHA256, &mtime, nil)

	mt := &m.Tests
	mt.Mode, mt.Commands = spec.TestsMode, orEmpty(spec.TestCommands)
	note(spec.TestStatusFile, &mt.StatusFile, &mt.StatusSHA256, &mt.StatusMTime, &mt.Status)
	note(spec.TestOutputFile, &mt.OutputFile, &mt.OutputSHA256, &mt.OutputMTime, nil)

	mc := &m.Checklists
	mc.Patterns = orEmpty(spec.ChecklistPatterns)
	note(spec.ChecklistStatusFile, &mc.StatusFile, &mc.StatusSHA256, &mc.StatusMTime, &mc.Status)
	note(spec.ChecklistRemainingFile, &mc.RemainingFile, &mc.RemainingSHA256, &mc.RemainingMTime, nil)

	mv := &m.Validation
	note(spec.ValidationStatusFile, &mv.StatusFile, &mv.StatusSHA256, &mtime, &mv.Status)
	note(spec.ValidationResultsFile, &mv.ResultsFile, &mv.ResultsSHA256, &mtime, &mv.Results)
	mp := &m.Prerequisites
	note(spec.PrerequisitesStatusFile, &mp.StatusFile, &mp.StatusSHA256, &mtime, &mp.Status)
	note(spec.PrerequisitesResultsFile, &mp.ResultsFile, &mp.ResultsSHA256, &mtime, &mp.Results)
	if failed != nil {
		return nil, fmt.Errorf("building the evidence manifest: %w", failed)
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
	if file == "" {
		return out, nil
	}
	rel, err := t.rel(file)
	if err != nil {
		return out, nil
	}
	out.rel = rel
	h, err := t.hashFile(ctx, rel)
	if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
		return out, cause
	}
	if err != nil {
		return out, nil
	}
	out.sum, out.mtime = &h.sum, &h.mtime
	if embed {
		if data, err := t.read(rel, maxEmbedded); err == nil && json.Valid(data) {
			out.content = data
		}
	}
	return out, nil
}
