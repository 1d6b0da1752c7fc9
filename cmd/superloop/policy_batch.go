package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
)

// maxBatchLine bounds a line of a batch in bytes; a longer one is answered with an
// error.
const maxBatchLine = 32 << 20

// judged is a line of the answer.
type judged struct {
	ID      json.RawMessage `json:"id"`
	Verdict action.Decision `json:"verdict"`
	Rule    string          `json:"rule"`
	Reason  string          `json:"reason"`
	Part    string          `json:"part"`
	Pattern string          `json:"pattern,omitempty"`
}

// refused is the answer to a line that is no question.
type refused struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
	Line  int             `json:"line"`
}

// batch answers lines; policies and directories come again and again.
type batch struct {
	root     *recovery.Root
	policies map[string]*recovery.Policy
	dirs     map[string]string
}

func (a *app) policyBatch(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	root, err := recovery.OpenRoot(repo)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only looked through
	b := &batch{root: root, policies: map[string]*recovery.Policy{}, dirs: map[string]string{}}
	in, out := bufio.NewReaderSize(a.stdin, 64<<10), bufio.NewWriterSize(a.stdout, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for n := 1; ; n++ {
		line, whole, err := nextLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading stdin: %w", err)
		}
		var answer any
		if whole {
			answer = b.answer(line, n)
		} else {
			answer = refused{ID: peekID(line), Error: fmt.Sprintf("the line is longer than %d bytes", maxBatchLine), Line: n}
		}
		if err := enc.Encode(answer); err != nil {
			return fmt.Errorf("writing the answer to line %d: %w", n, err)
		}
		if in.Buffered() == 0 { // whoever asks may wait for it
			if err := out.Flush(); err != nil {
				return fmt.Errorf("writing the answers: %w", err)
			}
		}
		if c.Context.Err() != nil {
			return errors.Join(out.Flush(), c.Context.Err())
		}
	}
	return out.Flush()
}

// nextLine reads a line without its end; whole is false if it was too long, and
// then it is only its beginning. io.EOF: there is none.
func nextLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	whole = true
	for {
		piece, err := in.ReadSlice('\n')
		if len(line)+len(piece) > maxBatchLine {
			whole = false
			piece = piece[:max(0, min(len(piece), 4096-len(line)))]
		}
		line = append(line, piece...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return bytes.TrimRight(line, "\r\n"), whole, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

func (b *batch) answer(line []byte, n int) any {
	keys, err := strictObject(line, "id", "auto_approve", "require_human", "on_unknown", "command", "working_dir")
	id := keys["id"]
	if err != nil {
		return refused{ID: peekID(line), Error: err.Error(), Line: n}
	}
	var command, dir *string
	if err := errors.Join(into(keys, "command", &command), into(keys, "working_dir", &dir)); err != nil {
		return refused{ID: orNull(id), Error: err.Error(), Line: n}
	}
	if command == nil {
		return refused{ID: orNull(id), Error: `the key "command" is missing`, Line: n}
	}
	p, err := b.policy(keys)
	if err != nil {
		return refused{ID: orNull(id), Error: err.Error(), Line: n}
	}
	question := recovery.Command{Text: *command, WorkingDir: "."}
	if dir != nil {
		question.WorkingDir = *dir
	}
	if question.DirProblem, err = b.dirProblem(question.WorkingDir); err != nil {
		return refused{ID: orNull(id), Error: err.Error(), Line: n}
	}
	v := recovery.Decide(p, question, recovery.Facts{LooseOK: true, Confined: true})
	out := judged{ID: orNull(id), Verdict: v.Decision, Rule: v.Rule, Reason: v.Reason, Part: v.Part}
	if v.Pattern >= 0 {
		out.Pattern = p.Settings.RequireHuman[v.Pattern]
	}
	return out
}

// enough bounds what a batch remembers.
const enough = 1000

func (b *batch) policy(keys map[string]json.RawMessage) (*recovery.Policy, error) {
	name := fmt.Sprintf("%d %d %s%s%s", len(keys["auto_approve"]), len(keys["require_human"]), keys["auto_approve"], keys["require_human"], keys["on_unknown"])
	if p := b.policies[name]; p != nil {
		return p, nil
	}
	s := recovery.Defaults()
	// An odd on_unknown is judged, as every odd thing: by a person.
	if err := errors.Join(into(keys, "auto_approve", &s.AutoApprove), into(keys, "require_human", &s.RequireHuman), into(keys, "on_unknown", &s.OnUnknown)); err != nil {
		return nil, err
	}
	p, problems := recovery.Compile(s)
	if len(problems) > 0 {
		return nil, errors.New(problemLine(problems))
	}
	if len(b.policies) < enough {
		b.policies[name] = p
	}
	return p, nil
}

func problemLine(problems []schemas.Problem) string {
	text := problems[0].String()
	if len(problems) > 1 {
		text += fmt.Sprintf(" (and %d more)", len(problems)-1)
	}
	return text
}

func (b *batch) dirProblem(dir string) (string, error) {
	if why, known := b.dirs[dir]; known {
		return why, nil
	}
	why, err := dirProblem(b.root, dir)
	if err == nil && len(b.dirs) < enough {
		b.dirs[dir] = why
	}
	return why, err
}

// into decodes the value of a key, if it is there and not null.
func into(keys map[string]json.RawMessage, key string, dst any) error {
	raw := keys[key]
	if raw == nil || string(raw) == "null" {
		return nil
	}
	if loneSurrogate(raw) {
		return fmt.Errorf("%q holds half of a surrogate pair, which is no character", key)
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		return fmt.Errorf("%q is not what it should be: %w", key, err)
	}
	return nil
}

// strictObject reads a JSON object and gives the values of the named keys; other
// keys are passed over. It refuses what two readers could read differently: a
// named key that stands twice, bytes that are not UTF-8, anything after the end.
func strictObject(line []byte, names ...string) (map[string]json.RawMessage, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("the line is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("the line is not a JSON object")
	}
	keys := map[string]json.RawMessage{}
	for dec.More() {
		var raw json.RawMessage
		name, err := dec.Token()
		if err == nil {
			err = dec.Decode(&raw)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errors.New("the line is cut short")
		case err != nil:
			return nil, fmt.Errorf("the line is not JSON: %w", err)
		}
		for _, n := range names {
			if n != name {
				continue
			}
			if _, twice := keys[n]; twice {
				return nil, fmt.Errorf("the key %q stands here twice", n)
			}
			keys[n] = raw
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("the line is cut short")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands after the object")
	}
	return keys, nil
}

// peekID finds the id in a line that is not whole, if it stands early enough.
func peekID(line []byte) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(line))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return orNull(nil)
	}
	for dec.More() {
		var raw json.RawMessage
		name, err := dec.Token()
		if err != nil || dec.Decode(&raw) != nil {
			break
		}
		if name == "id" && utf8.Valid(raw) {
			return raw
		}
	}
	return orNull(nil)
}

func orNull(id json.RawMessage) json.RawMessage {
	if id == nil {
		return json.RawMessage("null")
	}
	return id
}

// loneSurrogate reports whether JSON text escapes half of a surrogate pair, which
// decoders replace without a word.
func loneSurrogate(raw []byte) bool {
	high := false
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			if high {
				return true
			}
			continue
		}
		var unit uint64
		escaped := i+5 < len(raw) && raw[i+1] == 'u'
		if escaped {
			unit, _ = strconv.ParseUint(string(raw[i+2:i+6]), 16, 16) // valid JSON, so it is a number
		}
		i++
		if escaped {
			i += 4
		}
		low := escaped && unit >= 0xdc00 && unit <= 0xdfff
		if high != low {
			return true
		}
		high = escaped && unit >= 0xd800 && unit <= 0xdbff
	}
	return high
}
