package escalation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/schemas"
)

// view is escalation.json.
type view struct {
	Timestamp time.Time `json:"timestamp"`
	ID        string    `json:"id"`
	Digest    string    `json:"digest"`
	LoopID    string    `json:"loop_id"`
	RunID     string    `json:"run_id"`
	Iteration int       `json:"iteration"`
	Type      Type      `json:"type"`
	Status    State     `json:"status"`
	Proposal  *proposal `json:"recovery_proposal"`
	Options   []Option  `json:"options"`
	Reason    string    `json:"reason"`
	Rule      string    `json:"rule,omitempty"`
	Errors    []string  `json:"errors"`
	Details   string    `json:"details,omitempty"`
	Chain     any       `json:"chain"` // always null; the schema wants it
	ExpiresAt time.Time `json:"expires_at"`
	Blocking  bool      `json:"blocking"`
	Actions   Actions   `json:"actions"`
	// What became of it.
	By            string    `json:"by,omitempty"`
	Method        Method    `json:"method,omitempty"`
	Note          string    `json:"note,omitempty"`
	AnsweredAt    time.Time `json:"answered_at,omitzero"`
	EditedCommand string    `json:"edited_command,omitempty"`
	BegunAt       time.Time `json:"begun_at,omitzero"`
	EndedAt       time.Time `json:"ended_at,omitzero"`
	ExitCode      *int      `json:"exit_code,omitempty"`
	Why           string    `json:"why,omitempty"`
	SupersededBy  string    `json:"superseded_by,omitempty"`
}

// proposal is the command in the form of recovery.json, version 1.
type proposal struct {
	Version   int       `json:"version"`
	Timestamp time.Time `json:"timestamp"`
	Category  string    `json:"category,omitempty"`
	Severity  string    `json:"severity,omitempty"`
	Diagnosis struct {
		ErrorPattern string   `json:"error_pattern,omitempty"`
		RootCause    string   `json:"root_cause,omitempty"`
		Evidence     []string `json:"evidence"`
	} `json:"diagnosis"`
	Recovery struct {
		Command         string `json:"command"`
		WorkingDir      string `json:"working_dir"`
		TimeoutSeconds  int64  `json:"timeout_seconds"`
		ExpectedOutcome string `json:"expected_outcome"`
		Confidence      string `json:"confidence,omitempty"`
	} `json:"recovery"`
}

// View is escalation.json: r for people and scripts, valid by its schema, and never read back by superloop. It is pure
// ASCII: what is invisible or moves a cursor stands as an escape of JSON, so that scripts get the exact text and a
// terminal shows it.
//
// What is too large, as only a hostile question is, loses its manual action, errors, details, options and evidence.
func View(r Record) ([]byte, error) {
	v := viewOf(r)
	for _, drop := range []func(){
		func() {},
		func() { v.Actions.Manual = "" },
		func() { v.Errors, v.Details, v.Options = []string{}, "", []Option{} },
		func() {
			if v.Proposal != nil {
				v.Proposal.Diagnosis.Evidence = []string{}
			}
		},
	} {
		drop()
		var b bytes.Buffer
		data, err := marshal(v)
		if err == nil {
			err = json.Indent(&b, ascii(data), "", "  ")
		}
		if err != nil {
			return nil, fmt.Errorf("writing escalation.json: %w", err)
		}
		if b.WriteByte('\n'); b.Len() <= schemas.Escalation.Limit() {
			return b.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("writing escalation.json: the question %.8s has no form that is small enough", r.Question.ID)
}

func viewOf(r Record) view {
	q := r.Question
	v := view{Timestamp: q.Created, ID: q.ID, Digest: r.Digest, LoopID: q.Loop, RunID: q.Run, Iteration: q.Iteration, Type: q.Type,
		Status: r.State, Options: append([]Option{}, q.Options...), Reason: q.Reason, Rule: q.Rule, Errors: append([]string{}, q.Errors...), Details: q.Details,
		ExpiresAt: q.Expires, Blocking: q.Blocking(), Actions: r.Actions(), BegunAt: r.Begun, EndedAt: r.Ended, Why: r.Why, SupersededBy: r.SupersededBy}
	if c := q.Command; c != nil {
		p := &proposal{Version: 1, Timestamp: q.Created, Category: c.Category, Severity: c.Severity}
		p.Diagnosis.ErrorPattern, p.Diagnosis.RootCause, p.Diagnosis.Evidence = c.ErrorPattern, c.RootCause, append([]string{}, c.Evidence...)
		p.Recovery.Command, p.Recovery.WorkingDir, p.Recovery.TimeoutSeconds = string(c.Text), c.WorkingDir, max(1, (c.TimeoutMS+999)/1000)
		p.Recovery.ExpectedOutcome, p.Recovery.Confidence = c.ExpectedOutcome, c.Confidence
		v.Proposal = p
	}
	if a := r.Answer; a != nil {
		v.By, v.Method, v.Note, v.AnsweredAt = a.By.String(), a.Method, a.Note, a.At
		if a.Edit != nil {
			v.EditedCommand = string(a.Edit.Text)
		}
	}
	if o := r.Outcome; o != nil {
		v.ExitCode, v.Why = o.ExitCode, cmp.Or(v.Why, o.Note)
	}
	return v
}

// ascii writes what is not printable ASCII in JSON text as escapes. Such characters stand in strings only.
func ascii(data []byte) []byte {
	out := make([]byte, 0, len(data)+len(data)/8)
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		switch {
		case c >= ' ' && c <= '~':
			out = append(out, byte(c))
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
		data = data[size:]
	}
	return out
}

// byHand is the line that does by hand what superloop would do: the command in its directory.
func byHand(repo, workingDir, command string) string {
	quoted := text.Paste(absolute(repo, workingDir))
	if strings.HasPrefix(quoted, `"$(`) { // the slash at its end saves a name that ends with a newline
		quoted = text.Paste(strings.TrimRight(absolute(repo, workingDir), "/") + "/")
	}
	cd := "cd " + quoted + " && "
	if pastable(command) {
		return cd + command
	}
	cd += "bash --noprofile --norc -o pipefail -c "
	if command != "" && (command[0] == '-' || command[0] == '+') {
		cd += "-- " // else bash takes it for options
	}
	return cd + text.Paste(command)
}

func absolute(repo, dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(repo, dir)
}

// shellWords are commands that would change the shell that they are pasted into, and words of its grammar.
const shellWords = " . alias bind break builtin case cd command continue coproc declare do done elif else enable esac eval exec exit " +
	"export fi for function hash if kill let local logout popd pushd read readonly return select set shift shopt source suspend then time " +
	"times trap typeset ulimit umask unalias unset until while "

// pastable reports whether a command can stand as it is behind "cd DIR &&": simple commands joined by &&, of plain
// words, and none of shellWords. Anything else goes through bash -c.
func pastable(command string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+,= "
	for part := range strings.SplitSeq(command, "&&") {
		words := strings.Fields(part)
		if len(words) == 0 || strings.Trim(part, plain) != "" || strings.Contains(words[0], "=") || strings.Contains(shellWords, " "+words[0]+" ") {
			return false
		}
	}
	return true
}

// verb is a command line that answers the question, and no other: it names the digest. Sixteen of its digits are
// enough, since nobody but superloop chooses what it is made of.
func verb(r Record, name, more string) string {
	loop := " --loop "
	if strings.HasPrefix(r.Question.Loop, "-") {
		loop = " --loop="
	}
	return "superloop " + name + " --repo " + text.Paste(r.Question.Repo) + loop + r.Question.Loop + " --digest " + r.Digest[:16] + more
}

// Actions are complete command lines that can be pasted into a shell.
type Actions struct {
	Approve string `json:"approve"`
	Reject  string `json:"reject"`
	// Resolve says that it is done by hand; Manual is the line that does it, "" where none is known.
	Resolve string `json:"resolve"`
	Manual  string `json:"manual,omitempty"`
}

// Actions are the ways to answer r.
func (r Record) Actions() Actions {
	a := Actions{
		Approve: verb(r, "approve-recovery", ""),
		Reject:  verb(r, "reject-recovery", ""),
		Resolve: verb(r, "resolve-recovery", " --note 'done by hand'"),
		Manual:  r.Question.Manual,
	}
	if c := r.Question.Command; c != nil {
		a.Manual = byHand(r.Question.Repo, c.WorkingDir, string(c.Text))
	}
	return a
}
