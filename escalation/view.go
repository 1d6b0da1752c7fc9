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
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
)

// view is the JSON of escalation.json.
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
	Chain     any       `json:"chain"` // always null; the schema requires the key
	ExpiresAt time.Time `json:"expires_at"`
	Blocking  bool      `json:"blocking"`
	Actions   Actions   `json:"actions"`
	// The answer and the outcome.
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

// proposal is the question's command in the form of recovery.json, version 1: as its role left it, but for values that
// the file left out or that a limit has cut.
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
	Recovery attempt  `json:"recovery"`
	Fallback *attempt `json:"fallback,omitempty"`
}

type attempt struct {
	Command         string `json:"command"`
	WorkingDir      string `json:"working_dir"`
	TimeoutSeconds  int64  `json:"timeout_seconds"`
	ExpectedOutcome string `json:"expected_outcome"`
	Confidence      string `json:"confidence,omitempty"`
}

func attemptOf(a action.Action) attempt {
	return attempt{a.Command, a.WorkingDir, max(1, (a.TimeoutMS+999)/1000), a.Expected, a.Confidence}
}

// View returns the content of escalation.json: the record for operators and scripts, valid under its schema. superloop
// never reads the file back. View writes only ASCII: it escapes invisible characters and those that move a cursor, as
// JSON does. So scripts get the exact text, and a terminal shows every character.
//
// Only a hostile question is too large for the file. View then leaves out parts of it: first the manual action, then
// the errors, details and options, then the evidence.
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
		p := &proposal{Version: 1, Timestamp: c.ProposedAt, Category: c.Category, Severity: c.Severity}
		if p.Timestamp.IsZero() {
			p.Timestamp = q.Created
		}
		p.Diagnosis.ErrorPattern, p.Diagnosis.RootCause, p.Diagnosis.Evidence = c.ErrorPattern, c.RootCause, append([]string{}, c.Evidence...)
		p.Recovery = attemptOf(c.Action())
		if c.Fallback != nil {
			fallback := attemptOf(*c.Fallback)
			p.Fallback = &fallback
		}
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

// ascii replaces characters of JSON text that are not printable ASCII by JSON escapes. Such characters occur only
// inside JSON strings.
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

// byHand returns the command line that an operator pastes to do by hand what superloop would do: it changes to the
// working directory and runs the command.
func byHand(repo, workingDir, command string) string {
	quoted := text.Paste(absolute(repo, workingDir))
	if strings.HasPrefix(quoted, `"$(`) { // the slash at the end keeps a newline with which the name ends
		quoted = text.Paste(strings.TrimRight(absolute(repo, workingDir), "/") + "/")
	}
	cd := "cd " + quoted + " && "
	if pastable(command) {
		return cd + command
	}
	cd += "bash --noprofile --norc -o pipefail -c "
	if command != "" && (command[0] == '-' || command[0] == '+') {
		cd += "-- " // without it bash takes the command for options
	}
	return cd + text.Paste(command)
}

func absolute(repo, dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(repo, dir)
}

// shellWords are the commands that would change the operator's shell, and the reserved words of the shell.
const shellWords = " . alias bind break builtin case cd command continue coproc declare do done elif else enable esac eval exec exit " +
	"export fi for function hash if kill let local logout popd pushd read readonly return select set shift shopt source suspend then time " +
	"times trap typeset ulimit umask unalias unset until while "

// pastable reports whether the command can follow "cd DIR &&" unchanged. It must consist of simple commands joined by
// &&, with plain words only, and no command may begin with one of shellWords. byHand passes any other command to bash
// -c.
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

// verb returns a command line that answers this question and no other, because it names the digest. Sixteen digits of
// the digest are enough, since only superloop chooses the question's random id.
func verb(r Record, name, more string) string {
	loop := " --loop "
	if strings.HasPrefix(r.Question.Loop, "-") {
		loop = " --loop="
	}
	return "superloop " + name + " --repo " + text.Paste(r.Question.Repo) + loop + r.Question.Loop + " --digest " + r.Digest[:16] + more
}

// Actions holds complete command lines that an operator can paste into a shell.
type Actions struct {
	Approve string `json:"approve"`
	Reject  string `json:"reject"`
	// Resolve tells superloop that the operator has done the work by hand. Manual is the command line for that work, or
	// "" if none is known.
	Resolve string `json:"resolve"`
	Manual  string `json:"manual,omitempty"`
}

// Actions returns the command lines that answer r.
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
