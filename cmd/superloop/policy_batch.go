package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/batch"
	"github.com/superloop/superloop/internal/workdir"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
)

// maxBatchLine bounds a line of a batch in bytes; a longer one is answered with an error.
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

// policyLines answers lines; policies come again and again.
type policyLines struct {
	root     *workdir.Root
	policies map[string]*recovery.Policy
}

func (a *app) policyBatch(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	root, err := workdir.OpenRoot(repo)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only looked through
	b := &policyLines{root, map[string]*recovery.Policy{}}
	n := 0
	err = batch.Lines(reading{c.Context, a.stdin}, a.stdout, maxBatchLine, func(line []byte, whole bool) any {
		n++
		answer, id, err := b.answer(line, whole)
		if err != nil {
			return batch.Refused{ID: batch.ID(id), Error: err.Error(), Line: n}
		}
		return answer
	})
	return orInterrupted(c.Context, err)
}

// answer judges the command of a line; id is that of the line, also where it is no question.
func (b *policyLines) answer(line []byte, whole bool) (out judged, id json.RawMessage, err error) {
	if !whole {
		return out, peekID(line), errors.New(batch.TooLong(maxBatchLine))
	}
	keys, err := strictObject(line, "id", "auto_approve", "require_human", "on_unknown", "command", "working_dir")
	if err != nil {
		return out, peekID(line), err
	}
	id = keys["id"]
	var command, dir *string
	if err := errors.Join(into(keys, "command", &command), into(keys, "working_dir", &dir)); err != nil {
		return out, id, err
	}
	if command == nil {
		return out, id, errors.New(`the key "command" is missing`)
	}
	p, err := b.policy(keys)
	if err != nil {
		return out, id, err
	}
	question := recovery.Command{Text: *command, WorkingDir: "."}
	if dir != nil {
		question.WorkingDir = *dir
	}
	if question.DirProblem, err = dirProblem(b.root, question.WorkingDir); err != nil {
		return out, id, err
	}
	v := recovery.Decide(p, question, recovery.Facts{LooseOK: true, Confined: true})
	out = judged{ID: batch.ID(id), Verdict: v.Decision, Rule: v.Rule, Reason: v.Reason, Part: v.Part}
	if v.Pattern >= 0 {
		out.Pattern = p.Settings.RequireHuman[v.Pattern]
	}
	return out, id, nil
}

// enough bounds how many policies a batch remembers.
const enough = 1000

func (b *policyLines) policy(keys map[string]json.RawMessage) (*recovery.Policy, error) {
	name := fmt.Sprintf("%d %d %s%s%s", len(keys["auto_approve"]), len(keys["require_human"]), keys["auto_approve"], keys["require_human"], keys["on_unknown"])
	if p := b.policies[name]; p != nil {
		return p, nil
	}
	s := recovery.Defaults()
	// An odd on_unknown is judged, as every odd thing: by an operator.
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

// strictObject reads a JSON object and gives the values of the named keys; other keys are passed over. It refuses what
// two readers could read differently: a named key that stands twice, bytes that are not UTF-8, anything after the end.
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

// peekID finds the id in a line that is not whole, if it stands early enough; else nil.
func peekID(line []byte) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(line))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil
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
	return nil
}

// loneSurrogate reports whether JSON text escapes half of a surrogate pair, which decoders replace without a word.
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
