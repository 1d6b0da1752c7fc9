package effects

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/roles"
)

// maxArchived bounds how many earlier runs are searched for the same report, the newest first.
const maxArchived = 100

// reportersOf returns those roles of the plan whose reports the names stand for: plan, implementer, test-report,
// review. "review" is the report of the role that promises.
func reportersOf(p loop.Plan, names []string) []string {
	var out []string
	for _, role := range p.Roles {
		file, _ := roles.Deliverable(role)
		name := strings.TrimSuffix(file, ".md")
		if slices.Contains(names, name) || role == p.PromiseRole() && slices.Contains(names, "review") {
			out = append(out, role)
		}
	}
	return out
}

// ReportDigest identifies a report by its words, whatever the white space between them. It returns "" for a report that
// is blank or is no regular file.
func ReportDigest(path string) string {
	text, _, err := door.Ends(path, door.MaxReport, 0)
	words := strings.Fields(text)
	if err != nil || len(words) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(words, " ")))
	return hex.EncodeToString(sum[:8])
}

// reports returns the verdict about the reports that completion needs (loop.Gates.Reports). It reads the reports again,
// because a later role can have changed them.
func (g *Gates) reports(s loop.State) string {
	for _, role := range s.Plan.Completion.Reports {
		file, _ := roles.Deliverable(role)
		r, ran := s.Roles[role]
		digest := ReportDigest(g.Paths.File(file))
		switch {
		case !ran || r.Output == "":
			return file + ":" + string(roles.Missing)
		case r.Output != string(roles.Fresh):
			return file + ":" + r.Output
		case digest == "":
			return file + ":" + string(roles.Empty)
		case g.repeated(s, file, digest):
			return file + ":" + loop.ReportRepeated
		}
	}
	return loop.ReportsOK
}

// repeated reports whether an earlier iteration of the run, or an earlier run of the loop, left the same report. If the
// directory of earlier runs cannot be read, because an agent has put something else there, repeated knows none of them.
func (g *Gates) repeated(s loop.State, file, digest string) bool {
	if slices.Contains(s.Reports, digest) {
		return true
	}
	archive := g.Paths.File("archive")
	runs, err := os.ReadDir(archive)
	if !errors.Is(err, fs.ErrNotExist) {
		g.Warn("the reports of earlier runs cannot be compared with "+file, err)
	}
	for _, run := range runs[max(0, len(runs)-maxArchived):] {
		if ReportDigest(filepath.Join(archive, run.Name(), file)) == digest {
			return true
		}
	}
	return false
}
