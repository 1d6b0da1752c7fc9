package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/superloop/superloop/internal/door"
)

const maxPacketSection = 64 << 10 // maxPacketSection bounds how much of one file the packet repeats, in bytes

// Packet holds the facts of reviewer-packet.md.
type Packet struct {
	LoopID    string
	Iteration int
	// GatesOf is the iteration of the gate summary, the checklists and the evidence, 0 for none. It is the iteration
	// before, because these gates run after the reviewer. The packet states it, so that the reviewer need not guess.
	GatesOf int
	// File returns the path of a file of the loop: relative to the repository, or absolute and inside of it.
	File func(name string) string
}

// ReviewerPacket returns the content of reviewer-packet.md: the files by which a reviewer judges. It names each file
// that is missing. Of a file beyond 64 KiB it leaves out the middle. ReviewerPacket returns an error only if it cannot
// open the repository.
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

// section returns the text of a file for the packet. ok is false if the file cannot be read.
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
	part := func(from, n int64) []byte { // leaves out bytes that it cannot read
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

const maxEmbedded = 1 << 20 // maxEmbedded bounds a status file that evidence.json repeats, in bytes

// ManifestSpec holds the facts that evidence.json states besides the artifacts.
type ManifestSpec struct {
	LoopID    string
	Iteration int
	SpecFile  string

	TestsMode         string
	TestCommands      []string
	ChecklistPatterns []string

	// File returns the path of a file of the loop: relative to the repository, or absolute and inside of it. The
	// manifest has null for a file that does not exist. Such a file fails nothing here, because its own gate has judged
	// it.
	File func(name string) string
}

// Manifest returns the content of evidence.json: the artifacts of the evidence gate, and the current hashes of the
// files that the other gates have written. The rlms keys remain for readers of the original's files. superloop has no
// such step.
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
	// file adds the facts about a file of the loop, under keys that begin with what.
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

// recorded hashes a file that another gate has written. All fields are nil if the file does not exist or cannot be
// read. recorded returns an error only if ctx ends.
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
	if data, err := t.read(rel, maxEmbedded); err == nil && door.Shallow(data) && json.Valid(data) {
		out.content = data
	}
	return out, nil
}
