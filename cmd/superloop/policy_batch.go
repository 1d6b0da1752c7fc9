package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/batch"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/internal/workdir"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
)

// maxBatchLine bounds a line of a batch in bytes. superloop answers a longer line with an error.
const maxBatchLine = 32 << 20

// judged is the answer to one line of a batch.
type judged struct {
	ID      json.RawMessage `json:"id"`
	Verdict action.Decision `json:"verdict"`
	Rule    string          `json:"rule"`
	Reason  string          `json:"reason"`
	Part    string          `json:"part"`
	Pattern string          `json:"pattern,omitempty"`
}

// policyLines answers the lines of a batch. It keeps compiled policies, because the same policies come again and again.
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
	defer func() { _ = root.Close() }() // nothing was written through it
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

// answer judges the command of a line. id is the line's id, also if the line is not a valid question.
func (b *policyLines) answer(line []byte, whole bool) (out judged, id json.RawMessage, err error) {
	keys, err := strictObject(line, "id", "auto_approve", "require_human", "on_unknown", "command", "working_dir")
	if utf8.Valid(keys["id"]) {
		id = keys["id"]
	}
	switch {
	case !whole:
		return out, id, errors.New(batch.TooLong(maxBatchLine))
	case !utf8.Valid(line):
		return out, id, errors.New("the line is not UTF-8")
	case err != nil:
		return out, id, err
	}
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

// enough bounds how many compiled policies a batch keeps.
const enough = 1000

func (b *policyLines) policy(keys map[string]json.RawMessage) (*recovery.Policy, error) {
	name := fmt.Sprintf("%d %d %s%s%s", len(keys["auto_approve"]), len(keys["require_human"]), keys["auto_approve"], keys["require_human"], keys["on_unknown"])
	if p := b.policies[name]; p != nil {
		return p, nil
	}
	s := recovery.Defaults()
	// An unknown value of on_unknown is no error: Decide leaves such commands to an operator.
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

// into decodes the value of a key into dst. It leaves dst as it is if the key is absent or null.
func into(keys map[string]json.RawMessage, key string, dst any) error {
	raw := keys[key]
	if raw == nil || string(raw) == "null" {
		return nil
	}
	if loneSurrogate(raw) {
		return fmt.Errorf("%q holds half of a surrogate pair, which is no character", key)
	}
	if err := text.Decode(raw, dst); err != nil {
		return fmt.Errorf("%q is not what it should be: %w", key, err)
	}
	return nil
}

// strictObject reads a JSON object and returns the values of the named keys. It skips other keys. It refuses text that
// two parsers could read differently: a named key that occurs twice, and anything after the end of the object. With an
// error it returns the keys that it read before the error.
func strictObject(line []byte, names ...string) (map[string]json.RawMessage, error) {
	keys := map[string]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(line))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return keys, errors.New("the line is not a JSON object")
	}
	var twice error
	for dec.More() {
		var raw json.RawMessage
		token, err := dec.Token()
		if err == nil {
			err = text.Reason(dec.Decode(&raw))
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return keys, cmp.Or(twice, errors.New("the line is cut short"))
		case err != nil:
			return keys, cmp.Or(twice, fmt.Errorf("the line is not JSON: %w", err))
		}
		name, _ := token.(string)
		if _, again := keys[name]; again {
			twice = cmp.Or(twice, fmt.Errorf("the key %q stands here twice", name))
		} else if slices.Contains(names, name) {
			keys[name] = raw
		}
	}
	if _, err := dec.Token(); err != nil {
		return keys, cmp.Or(twice, errors.New("the line is cut short"))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return keys, cmp.Or(twice, errors.New("something stands after the object"))
	}
	return keys, twice
}

// escapes matches the escape sequences in JSON text: a surrogate pair, one half of a pair (its first group), or any
// other escape.
var escapes = regexp.MustCompile(`(?i)\\ud[89ab]..\\ud[c-f]..|(\\ud[89a-f]..)|\\.`)

// loneSurrogate reports whether JSON text escapes one half of a surrogate pair alone. Decoders replace such a half
// silently.
func loneSurrogate(raw []byte) bool {
	return slices.ContainsFunc(escapes.FindAllSubmatch(raw, -1), func(m [][]byte) bool { return m[1] != nil })
}
