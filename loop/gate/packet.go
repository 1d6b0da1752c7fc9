package gate

import (
	"bytes"
	"fmt"
	"time"
)

// maxPacketSection bounds, in bytes, what the packet repeats of one file.
const maxPacketSection = 64 << 10

// Packet is what reviewer-packet.md is made of. Files are relative to the
// repository, or absolute inside of it; one that is empty has no section of its
// own to show and is named missing.
type Packet struct {
	LoopID    string
	Iteration int
	// GatesOf is the iteration that the gate summary, checklist and evidence are
	// from: they are judged after the reviewer, so it is the one before, 0 for
	// none. The packet says so, and no reviewer has to guess.
	GatesOf int

	GateSummaryFile        string
	TestStatusFile         string
	TestReportFile         string
	ChecklistStatusFile    string
	ChecklistRemainingFile string
	EvidenceFile           string
	ValidationStatusFile   string
	ValidationResultsFile  string
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
		{"Gate Summary", p.GateSummaryFile, "Missing gate summary."},
		{"Test Status", p.TestStatusFile, "Missing test status."},
		{"Test Report", p.TestReportFile, "Missing test report."},
		{"Checklist Status", p.ChecklistStatusFile, "Missing checklist status."},
		{"Checklist Remaining", p.ChecklistRemainingFile, "Missing checklist remaining list."},
		{"Evidence", p.EvidenceFile, "Missing evidence manifest."},
		{"Validation", p.ValidationStatusFile, "Missing validation status."},
	} {
		fmt.Fprintf(&b, "\n## %s\n", s.title)
		if !t.section(&b, s.file) {
			b.WriteString(s.missing + "\n")
		}
	}
	var results bytes.Buffer
	if t.section(&results, p.ValidationResultsFile) {
		b.WriteByte('\n')
		b.Write(results.Bytes())
	}
	return b.Bytes(), nil
}

// section repeats a file and reports whether it could.
func (t *tree) section(b *bytes.Buffer, file string) bool {
	rel, err := t.rel(file)
	if err != nil {
		return false
	}
	f, info, err := t.open(rel)
	if err != nil {
		return false
	}
	defer f.Close()
	size := info.Size()
	head := make([]byte, min(size, maxPacketSection))
	n, err := f.ReadAt(head, 0)
	if n < len(head) && err != nil {
		head = head[:n]
	}
	var tail []byte
	if size > maxPacketSection {
		head = head[:maxPacketSection/2]
		tail = make([]byte, maxPacketSection/2)
		n, _ := f.ReadAt(tail, size-int64(len(tail)))
		tail = tail[:n]
	}
	b.Write(bytes.ToValidUTF8(head, []byte("\ufffd")))
	if tail != nil {
		fmt.Fprintf(b, "\n... %d bytes left out ...\n", size-maxPacketSection)
		b.Write(bytes.ToValidUTF8(tail, []byte("\ufffd")))
	}
	if b.Len() > 0 && b.Bytes()[b.Len()-1] != '\n' {
		b.WriteByte('\n')
	}
	return true
}
