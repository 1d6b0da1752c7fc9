// Package trust keeps an agent that can write .superloop/config.json from allowing itself more than an operator allowed.
// The part of a configuration that decides what runs, with what rights and where news go is its Section; the Section
// that an operator trusted is pinned outside the repository (Store), and what the file says now is compared with the pin
// key by key.
//
// A change is a tightening or a loosening. A tightening is in force at once. A loosening is held, the pinned value
// stays, until an operator trusts it. Effective is the Section in force while something is held: never looser than the
// pin, and, wherever "looser" has a meaning, never looser than the file.
//
// What is not understood is a loosening. These are understood; everything else in a Section is pinned as it is, and any
// change of it is held:
//
//	key                                    tighter is                 in force while it differs
//	recovery.*                             see keys                   the stricter; what both grant; what either forbids
//	recovery.entries.*.network             none, full                 none if either is
//	runners.*                              one that no role runs goes the pinned ones
//	runners.*.permissions, roles.*         read-only; full is loosest the stricter; "" and workspace: the pinned
//	runners.*.pass_env                     fewer names, or []         the names of both; absent and a list: the pinned
//	loops.*                                one that goes              the loops of both
//	loops.*.tests.mode                     every, on_promise, disabled   the stricter; the pinned if the commands differ
//	loops.*.validation.enabled             true                       likewise
//	loops.*.validation.mode                every, on_promise          likewise
//	loops.*.validation.require_on_completion  true                    likewise
//	loops.*.approval.*                     true                       true if either is
//	loops.*.roles.*.runners                fewer besides the first    those of both
//	loops.*.respond.diagnostician          nobody                     nobody if the file says so, else the pinned one
//	escalation.slack.users                 fewer users                the users of both
//
// Pinned as they are: a runner's command, args, fast_args, prompt_mode, adapter and each variable of env; which roles a
// loop has, in which order, and the runner of each, which is the first of its runners; the commands of tests and
// validation and before a commit; each key of webhooks; the channels of escalation, and every key of escalation.slack
// and of recovery that is not in the table or in keys. A loop's recovery is compared as the policy that results for it,
// so that taking an override away is judged by what it does.
//
// One thing an order cannot say: where on_unknown is allow, a command that leaves auto_approve may still run as one
// that no list names, and then without the guard and the network of its own that only listed commands have.
//
// Not in the Section, and so in force as the file says: models and their tiers, the order in which the further runners
// of a role are asked, time bounds, budgets, prices, the times of escalation, checklists, prerequisites, evidence, the
// stuck check, how commits are made, what follows a failure (respond, but who is the diagnostician), and
// recovery.tests, which grant nothing. The checks of respond.preflight run nothing, and ask no other machine.
//
// Who runs as the same user as superloop, and is not confined, can write the pin too. The pin keeps a confined agent
// from loosening anything, and makes what an unconfined one does visible; it is no wall against the latter.
package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/superloop/superloop/loop/config"
)

// maxSize bounds a Section as JSON, in bytes: each loop that overrides recovery carries the whole policy that results
// for it, so that a small file could otherwise make a huge one.
const maxSize = 8 << 20

// Section is what of a configuration is pinned. Of and the reader of pins are its makers; it is not changed afterwards.
type Section struct {
	Runners  map[string]Runner `json:"runners"`
	Loops    map[string]Loop   `json:"loops"`
	Recovery Policy            `json:"recovery"`
	Webhooks map[string]any    `json:"webhooks"`
	// Escalation is left out when it says nothing, so that pins of before it keep their digests.
	Escalation Escalation `json:"escalation,omitzero"`
}

// Runner is how an agent CLI is started. FastArgs and PassEnv are nil when absent, which is not an empty list.
type Runner = config.Runner

// Loop is what of a loop is pinned.
type Loop struct {
	Roles []Role `json:"roles"` // Roles in the order in which they run
	// Tests and Validation lack what is not pinned: the bounds of commands and the static checks.
	Tests      config.Tests      `json:"tests"`
	Validation config.Validation `json:"validation"`
	Approval   config.Approval   `json:"approval"`
	PreCommit  []string          `json:"pre_commit_commands"`
	// Recovery is the policy that results for the loop; nil when it is that of the Section.
	Recovery Policy `json:"recovery"`
	// Diagnostician is its runner; "" is nobody. Left out when empty, like Role.Others: older pins keep their digests.
	Diagnostician string `json:"diagnostician,omitempty"`
}

// Role is who plays a role, and with which rights: "" are those of the runner.
type Role struct {
	Name        string `json:"name"`
	Runner      string `json:"runner"`
	Permissions string `json:"permissions"`
	// Others are the further runners, with their rights: "" are the runner's own. The order of asking is not pinned.
	Others map[string]string `json:"others,omitempty"`
	// Rest is neither compared nor in the digest. With it a role runs as it did when the file lost it, which is held.
	Rest *RoleRest `json:"rest,omitempty"`
}

// RoleRest is what of a role is not pinned.
type RoleRest struct {
	Model      string        `json:"model,omitempty"`
	Thinking   string        `json:"thinking,omitempty"`
	Timeout    time.Duration `json:"timeout_ns,omitempty"`
	Inactivity time.Duration `json:"inactivity_ns,omitempty"`
	Resume     bool          `json:"resume,omitempty"`
	// Choices are all who may play it, in their order; nil when it is only one.
	Choices []config.Choice `json:"choices,omitempty"`
}

// Of is the Section of a configuration. It fails only when that would be larger than 8 MiB.
func Of(c *config.Config) (Section, error) {
	size := len(c.Recovery)
	for _, l := range c.Loops {
		if l.Recovery != nil {
			size += len(l.Recovery) + len(c.Recovery)
		}
	}
	if size > maxSize {
		return Section{}, fmt.Errorf("%s: its loops override recovery so often that their policies have more than %d MiB together; put what they share into the top-level section only", c.Path, maxSize>>20)
	}
	top, err := object(c.Recovery)
	if err != nil {
		return Section{}, fmt.Errorf("reading recovery of %s: %w", c.Path, err)
	}
	s := Section{Runners: map[string]Runner{}, Loops: map[string]Loop{}, Webhooks: map[string]any{},
		Recovery: policyOf(top, c.Recovery != nil)}
	for name, r := range c.Runners {
		r = copied(r)
		r.PassEnv = distinct(r.PassEnv)
		s.Runners[name] = r
	}
	for _, l := range c.Loops {
		loop := Loop{Tests: l.Tests, Validation: l.Validation, Approval: l.Approval, PreCommit: list(l.Git.PreCommitCommands)}
		loop.Tests.Timeout, loop.Tests.Commands = 0, list(l.Tests.Commands)
		loop.Validation.Timeout, loop.Validation.Preflight, loop.Validation.Commands = 0, nil, list(l.Validation.Commands)
		for _, r := range l.Roles {
			loop.Roles = append(loop.Roles, roleOf(c, r))
		}
		if d := l.Respond.Diagnostician; d != nil {
			loop.Diagnostician = d.Runner
		}
		if l.Recovery != nil {
			own, err := object(l.Recovery)
			if err != nil {
				return Section{}, fmt.Errorf("reading recovery of loop %s of %s: %w", l.ID, c.Path, err)
			}
			loop.Recovery = s.Recovery.unless(policyOf(merge(top, own), true))
		}
		s.Loops[l.ID] = loop
	}
	s.Escalation = escalationOf(c.Escalation)
	if s.Webhooks, err = object(c.Webhooks); err != nil {
		return Section{}, fmt.Errorf("reading webhooks of %s: %w", c.Path, err)
	}
	return s, nil
}

// Policy is the policy of a loop: its own, or the Section's.
func (s Section) Policy(loop string) Policy {
	if p := s.Loops[loop].Recovery; p != nil {
		return p
	}
	return s.Recovery
}

// Digest is the SHA-256, in hex, of the Section as canonical JSON: keys sorted, no white space, nothing escaped that
// need not be, without what is not compared. Compare finds nothing between two Sections exactly when theirs are equal.
func (s Section) Digest() string {
	s.Loops = maps.Clone(s.Loops)
	for id, l := range s.Loops {
		s.Loops[id] = l.bare()
	}
	if s.Loops == nil {
		s.Loops = map[string]Loop{}
	}
	sum := sha256.Sum256(canonical(s))
	return hex.EncodeToString(sum[:])
}

// bare is the loop without what is not compared.
func (l Loop) bare() Loop {
	l.Roles = slices.Clone(l.Roles)
	for i := range l.Roles {
		l.Roles[i].Rest = nil
	}
	return l
}

// canonical writes v with the keys of every object sorted. All of a Section can be written as JSON and read back.
func canonical(v any) []byte { return bytes.TrimSuffix(encode(shown(v)), []byte("\n")) }

// shown is a value as plain JSON values.
func shown(v any) any {
	plain, err := decode(encode(v))
	if err != nil {
		panic("trust: reading a section back: " + err.Error())
	}
	return plain
}

func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("trust: writing a section: " + err.Error())
	}
	return b.Bytes()
}

func decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// object reads an object; an absent one is empty.
func object(raw json.RawMessage) (map[string]any, error) {
	if raw == nil {
		return map[string]any{}, nil
	}
	v, err := decode(raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it is not an object")
	}
	return m, nil
}

// list makes an absent list an empty one, where that means the same.
func list(in []string) []string { return append([]string{}, in...) }

// copied is a runner that shares no memory with r.
func copied(r Runner) Runner {
	r.Command, r.Args, r.Env = list(r.Command), list(r.Args), table(r.Env)
	r.FastArgs, r.PassEnv = slices.Clone(r.FastArgs), slices.Clone(r.PassEnv)
	return r
}

func table(in map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, in)
	return out
}

// distinct sorts a set of names; nil stays nil.
func distinct(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }
