package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const maxPacketSection = 64 << 10 // maxPacketSection bounds, in bytes, what the packet repeats of one file

// Packet is what reviewer-packet.md is made of.
type Packet struct {
	LoopID    string
	Iteration int
	// GatesOf is the iteration that the gate summary, checklist and evidence are from: they are judged after the
	// reviewer, so it is the one before, 0 for none. The packet says so, and no reviewer has to guess.
	GatesOf int
	// File gives the path of a file of the loop: relative to the repository, or absolute inside of it.
	File func(name string) string
}

// ReviewerPacket is reviewer-packet.md: the files a reviewer judges by, in one. A file that is not there is named
// missing; what is beyond 64 KiB is cut, its middle first. The error is for a repository that cannot be opened.
func ReviewerPacket(root string, p Packet, at time.Time) ([]byte, error) {
	t, err := openTree(root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Reviewer Packet\n\nLoop: %s\nIteration: %d\nGenerated at: %s\n", p.LoopID, p.Iteration, stamp(at))
	switch {
	case p.GatesOf == 0:
		b.WriteString("Gates: not judged yet, this is the first iteration.\n")
	case p.GatesOf != p.Iteration:
		fmt.Fprintf(&b, "Gates: gate summary, checklists, evidence and validation are those of iteration %d.\n", p.GatesOf)
	}
	for _, s := range []struct{ title, file, missing string }{
		{"Gate Summary", "gate-summary.txt", "gate summary"},
		{"Test Status", "test-status.json", "test status"},
		{"Test Report", "test-report.md", "test report"},
		{"Checklist Status", "checklist-status.json", "checklist status"},
		{"Checklist Remaining", "checklist-remaining.md", "checklist remaining list"},
		{"Evidence", "evidence.json", "evidence manifest"},
		{"Validation", "validation-status.json", "validation status"},
	} {
		fmt.Fprintf(&b, "\n## %s\n", s.title)
		if text, ok := t.section(p.File(s.file)); ok {
			b.Write(text)
		} else {
			fmt.Fprintf(&b, "Missing %s.\n", s.missing)
		}
	}
	if results, ok := t.section(p.File("validation-results.json")); ok {
		fmt.Fprintf(&b, "\n%s", results)
	}
	return b.Bytes(), nil
}

// section is a file as the packet repeats it; ok is false when it cannot be read.
func (t *tree) section(file string) (text []byte, ok bool) {
	rel, err := t.rel(file)
	if err != nil {
		return nil, false
	}
	f, info, err := t.open(rel)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	part := func(from, n int64) []byte { // what cannot be read is left out
		data, _ := io.ReadAll(io.NewSectionReader(f, from, n))
		return bytes.ToValidUTF8(data, []byte("\ufffd"))
	}
	const half = maxPacketSection / 2
	if size := info.Size(); size <= maxPacketSection {
		text = part(0, size)
	} else {
		text = fmt.Appendf(part(0, half), "\n... %d bytes left out ...\n%s", size-maxPacketSection, part(size-half, half))
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return text, true
}

const maxEmbedded = 1 << 20 // maxEmbedded bounds, in bytes, a status file that is repeated inside evidence.json

// ManifestSpec names what evidence.json tells beside the artifacts.
type ManifestSpec struct {
	LoopID    string
	Iteration int
	SpecFile  string

	TestsMode         string
	TestCommands      []string
	ChecklistPatterns []string

	// File gives the path of a file of the loop: relative to the repository, or absolute inside of it. A file that is
	// not there is null in the manifest and fails nothing, since its own gate has judged it.
	File func(name string) string
}

// Manifest is evidence.json: the artifacts that Evidence found, and the hashes of the files that the other gates left,
// as they are now. The keys of rlms are there for those who read the original's files; superloop has no such step.
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

// recorded hashes a file that another gate left; one that is not there, or cannot be read, is all null. The error is
// only for ctx.
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
