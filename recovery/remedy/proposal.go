package remedy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/classify"
)

// The words of a proposal's confidence, and what they are as numbers. A number gets the word that it is nearest to.
const (
	high, medium, low = "high", "medium", "low"

	highValue, mediumValue, lowValue = .9, .6, .3
)

func numeric(word string) float64 {
	switch word {
	case high:
		return highValue
	case medium:
		return mediumValue
	}
	return lowValue
}

func wordFor(confidence float64) string {
	switch {
	case confidence >= (highValue+mediumValue)/2:
		return high
	case confidence >= (mediumValue+lowValue)/2:
		return medium
	}
	return low
}

// file is recovery.json, version 1.
type file struct {
	Version   int                `json:"version"`
	Timestamp string             `json:"timestamp"`
	Category  string             `json:"category"`
	Severity  string             `json:"severity"`
	Diagnosis recovery.Diagnosis `json:"diagnosis"`
	Recovery  fileAttempt        `json:"recovery"`
}

type fileAttempt struct {
	Command         string `json:"command"`
	WorkingDir      string `json:"working_dir"`
	TimeoutSeconds  int64  `json:"timeout_seconds"`
	ExpectedOutcome string `json:"expected_outcome"`
	Confidence      string `json:"confidence"`
}

const (
	maxPattern  = 400 // bytes of an error pattern's text, before quoting
	maxEvidence = 8
)

// Proposal is the option as a tester would have proposed it, to be judged, shown and kept in the same way. Its digest
// is that of File's bytes. An option without a command gives a proposal without one: nothing can judge or run that.
func (o Option) Proposal(f classify.Failure, at time.Time) recovery.Proposal {
	doc := o.file(f, at)
	sum := sha256.Sum256(doc.bytes())
	a := doc.Recovery
	return recovery.Proposal{
		Digest: hex.EncodeToString(sum[:]), Timestamp: at.UTC().Truncate(time.Second), Category: doc.Category, Severity: doc.Severity,
		Diagnosis: doc.Diagnosis, Notes: slices.Clone(o.Notes),
		Recovery: action.Draft{
			Command: a.Command, WorkingDir: a.WorkingDir, TimeoutMS: (time.Duration(a.TimeoutSeconds) * time.Second).Milliseconds(),
			Expected: a.ExpectedOutcome, Confidence: a.Confidence,
		}.Action(),
	}
}

// File is the option as a recovery.json, version 1.
func (o Option) File(f classify.Failure, at time.Time) []byte { return o.file(f, at).bytes() }

func (d file) bytes() []byte {
	data, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("writing a proposal: %v", err)) // strings and numbers: it cannot fail
	}
	return data
}

func (o Option) file(f classify.Failure, at time.Time) file {
	limit := max(o.Timeout, time.Second)
	doc := file{
		Version: 1, Timestamp: at.UTC().Truncate(time.Second).Format(time.RFC3339), Category: areaOf(f), Severity: "blocking",
		Diagnosis: recovery.Diagnosis{ErrorPattern: errorPattern(f), RootCause: cmp.Or(strings.TrimSpace(f.Why), o.Label, "The environment is to blame."), Evidence: evidence(f)},
		Recovery: fileAttempt{
			Command: o.Command, WorkingDir: cmp.Or(o.WorkingDir, "."), TimeoutSeconds: int64((limit + time.Second - 1) / time.Second),
			ExpectedOutcome: cmp.Or(o.Expect, "the failed command passes"), Confidence: wordFor(o.Confidence),
		},
	}
	if f.Severity == "degraded" {
		doc.Severity = f.Severity
	}
	return doc
}

// areaOf is one of the five areas that a proposal can have.
func areaOf(f classify.Failure) string {
	if slices.Contains([]string{"dependency", "config", "environment", "permissions", "network"}, f.Area) {
		return f.Area
	}
	return "environment"
}

// errorPattern is an expression that matches the failure: the telling line, as it is.
func errorPattern(f classify.Failure) string {
	for _, e := range f.Evidence {
		if text := strings.TrimSpace(e.Text); text != "" {
			if len(text) > maxPattern {
				text = strings.ToValidUTF8(text[:maxPattern], "")
			}
			return regexp.QuoteMeta(text)
		}
	}
	return regexp.QuoteMeta(cmp.Or(f.Handler, f.Category, "unknown"))
}

func evidence(f classify.Failure) []string {
	out := []string{}
	for _, e := range f.Evidence[:min(len(f.Evidence), maxEvidence)] {
		where := e.Stream
		switch {
		case e.File != "" && e.FileLine > 0:
			where = fmt.Sprintf("%s:%d", e.File, e.FileLine)
		case e.File != "":
			where = e.File
		case e.Line > 0 && where != "":
			where = fmt.Sprintf("%s:%d", where, e.Line)
		}
		out = append(out, strings.TrimPrefix(where+": "+e.Text, ": "))
	}
	return out
}
