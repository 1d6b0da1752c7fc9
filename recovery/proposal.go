package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
)

// Proposal is what a tester proposes: recovery.json, version 1.
type Proposal struct {
	Digest    string        `json:"digest"` // the SHA-256, in hex, of the file's bytes
	Timestamp time.Time     `json:"timestamp"`
	Category  string        `json:"category"` // dependency, config, environment, permissions, network
	Severity  string        `json:"severity"` // blocking, degraded
	Diagnosis Diagnosis     `json:"diagnosis"`
	Recovery  action.Action `json:"recovery"`
	// Fallback is judged, and counted, by itself; nil when there is none.
	Fallback *action.Action `json:"fallback,omitempty"`
	Notes    []string       `json:"notes,omitempty"` // say what was taken otherwise than it was written
}

// Diagnosis is what was found.
type Diagnosis struct {
	ErrorPattern string   `json:"error_pattern"`
	RootCause    string   `json:"root_cause"`
	Evidence     []string `json:"evidence"`
}

// fileAttempt is an action as a tester writes it.
type fileAttempt struct {
	Command         string  `json:"command"`
	WorkingDir      *string `json:"working_dir"`
	TimeoutSeconds  *int64  `json:"timeout_seconds"`
	ExpectedOutcome string  `json:"expected_outcome"`
	Confidence      string  `json:"confidence"`
}

// DecodeProposal reads the bytes of a recovery.json strictly: see schemas.Read for what is refused. maxTimeout bounds
// the time that the commands may ask for; a longer one is cut, with a note.
func DecodeProposal(data []byte, maxTimeout time.Duration) (*Proposal, []schemas.Problem) {
	var f struct {
		Timestamp time.Time    `json:"timestamp"`
		Category  string       `json:"category"`
		Severity  string       `json:"severity"`
		Diagnosis Diagnosis    `json:"diagnosis"`
		Recovery  fileAttempt  `json:"recovery"`
		Fallback  *fileAttempt `json:"fallback"`
	}
	if problems := schemas.Into(schemas.Recovery, data, &f); len(problems) > 0 {
		return nil, problems
	}
	sum := sha256.Sum256(data)
	p := &Proposal{Digest: hex.EncodeToString(sum[:]), Timestamp: f.Timestamp, Category: f.Category, Severity: f.Severity, Diagnosis: f.Diagnosis}
	p.Recovery = p.attempt("recovery", f.Recovery, action.Draft{WorkingDir: ".", TimeoutMS: DefaultTimeout.Milliseconds()}, maxTimeout)
	if f.Fallback != nil {
		fallback := p.attempt("fallback", *f.Fallback, action.Draft{WorkingDir: p.Recovery.WorkingDir, TimeoutMS: p.Recovery.TimeoutMS}, maxTimeout)
		p.Fallback = &fallback
	}
	return p, nil
}

// attempt fills in what was not written from what it inherits.
func (p *Proposal) attempt(name string, f fileAttempt, from action.Draft, maxTimeout time.Duration) action.Action {
	a := action.Draft{Command: f.Command, WorkingDir: from.WorkingDir, TimeoutMS: from.TimeoutMS, Expected: f.ExpectedOutcome, Confidence: f.Confidence}
	if f.WorkingDir != nil {
		a.WorkingDir = *f.WorkingDir
	}
	if f.TimeoutSeconds != nil {
		a.TimeoutMS = (time.Duration(*f.TimeoutSeconds) * time.Second).Milliseconds()
	}
	if most := maxTimeout.Milliseconds(); most > 0 && a.TimeoutMS > most {
		if f.TimeoutSeconds != nil || name == "recovery" {
			p.Notes = append(p.Notes, fmt.Sprintf("%s.timeout_seconds is cut from %d to %d, the most that max_timeout_seconds allows",
				name, a.TimeoutMS/1000, int64(maxTimeout/time.Second)))
		}
		a.TimeoutMS = most
	}
	return a.Action()
}
