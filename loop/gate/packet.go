package gate

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// maxPacketSection bounds, in bytes, what the packet repeats of one file.
const maxPacketSection = 64 << 10

// Packet is what reviewer-packet.md is made of.
type Packet struct {
	LoopID    string
	Iteration int
	// GatesOf is the iteration that the gate summary, checklist and evidence are
	// from: they are judged after the reviewer, so it is the one before, 0 for
	// none. The packet says so, and no reviewer has to guess.
	GatesOf int
	// File gives the path of a file of the loop: relative to the repository, or
	// absolute inside of it.
	File func(name string) string
}

// ReviewerPacket is reviewer-packet.md: the files a reviewer judges by, in one.
// A file that is not there is named missing; what is beyond 64 KiB is cut, its
// middle first. The error is for a repository that cannot be opened.
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

// section is a file as the packet repeats it; ok is false when it cannot be
// read.
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
