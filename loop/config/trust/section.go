// Package trust keeps an agent that can write .superloop/config.json from giving itself more rights than an operator
// allowed. The Section of a configuration is the part that decides which programs run, with which permissions, and
// where news go. A Store pins the Section that an operator trusted, outside the repository. Compare compares the
// present file with the pin key by key.
//
// A change is a tightening or a loosening. A tightening is in force at once. A loosening is held until an operator
// trusts it: the pinned value stays in force. While a loosening is held, Effective returns the Section in force. It is
// never looser than the pin. Where a key has an order, it is never looser than the file, either.
//
// A change that superloop cannot compare is a loosening. The table lists the keys that have an order. Every other key
// of a Section keeps its pinned value, and any change of it is held:
//
//	key                                       tighter is                   value in force during a hold
//	recovery.*                                see keys                     the stricter; for sets see fewer and more
//	recovery.entries.*.network                none, then full              none if either is none
//	runners.*                                 a removed, unused runner     the pinned runners
//	runners.*.permissions, roles.*            read-only; full is loosest   the stricter; "" and workspace: the pinned
//	runners.*.pass_env                        fewer names, or []           the names in both lists, else the pinned
//	loops.*                                   a removed loop               the loops in both
//	loops.*.tests.mode                        every, on_promise, disabled  the stricter; if commands differ, pinned
//	loops.*.validation.enabled                true                         like tests.mode
//	loops.*.validation.mode                   every, on_promise            like tests.mode
//	loops.*.validation.require_on_completion  true                         like tests.mode
//	loops.*.approval.*                        true                         true if either is true
//	loops.*.completion.allow_ungated          false                        false if either is false
//	loops.*.completion.require_reports        more reports                 the reports in either
//	loops.*.completion.*                      true                         true if either is true
//	loops.*.roles.*.runners                   fewer besides the first      the runners in both
//	loops.*.respond.diagnostician             none                         none if the file has none, else pinned one
//	escalation.slack.users                    fewer users                  the users in both
//	protect.paths                             more paths                   the paths in either
//	protect.allow                             fewer                        those in both
//	permissions.mode                          enforce, observe, off        the stricter
//	permissions.on_unknown                    deny, escalate               the stricter
//	permissions.deny, .require_human          more                         those in either
//	permissions.paths.*                       more                         those in either
//	permissions.* (the other lists)           fewer                        those in both
//
// These values have no order, so a change of them is held: a runner's command, args, fast_args, prompt_mode, adapter
// and each variable of env; the roles of a loop, their order, and the runner of each (the first of its runners); the
// commands of tests and validation, and those before a commit; each key of webhooks; the channels of escalation, and
// every key of escalation.slack and of recovery that is neither in the table nor in keys. For a loop's recovery,
// Compare compares the policies that result for the loop, so it judges the removal of an override by its effect.
//
// The order has one gap. Where on_unknown is allow, a command that leaves auto_approve may still run as a command that
// no list names. Then it runs without the guard and without its own network setting, which only listed commands have.
//
// These values are not part of the Section, so those of the file are in force: models and their tiers, the order in
// which superloop tries the further runners of a role, time bounds, budgets, prices, the times of escalation, permissions.wait and
// permissions.max_open,
// checklists, prerequisites, evidence, the stuck check, the settings of commits, the respond section (except for the
// diagnostician), and recovery.tests, which permits nothing. The checks of respond.preflight run no program and connect
// to no other machine.
//
// A process that runs as the user of superloop, and without a sandbox, can write the pin, too. The pin keeps a
// sandboxed agent from loosening anything. It makes changes by an agent without a sandbox visible but cannot prevent
// them.
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

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/permit"
)

// maxSize bounds a Section as JSON, in bytes. Each loop that overrides recovery holds the whole resulting policy, so
// that a small file could otherwise lead to a huge Section.
const maxSize = 8 << 20

// Section is the pinned part of a configuration. Only Of and the functions that read pins make one, and nothing changes
// it afterwards.
type Section struct {
	Runners  map[string]Runner `json:"runners"`
	Loops    map[string]Loop   `json:"loops"`
	Recovery Policy            `json:"recovery"`
	Webhooks map[string]any    `json:"webhooks"`
	// Escalation is left out of the JSON when it is empty, so that pins from before the section existed keep their
	// digests.
	Escalation Escalation `json:"escalation,omitzero"`
	// Protect is left out for the same reason.
	Protect config.Protect `json:"protect,omitzero"`
	// Permissions is without the times and numbers of questions, and left out for the same reason.
	Permissions Permissions `json:"permissions,omitzero"`
}

// Runner says how superloop starts an agent CLI. FastArgs and PassEnv are nil when absent, which differs from an empty
// list.
type Runner = config.Runner

// Permissions is the pinned part of what agents may do while they work.
type Permissions struct {
	Mode         string       `json:"mode,omitempty"`
	AutoApprove  []string     `json:"auto_approve,omitempty"`
	Programs     []string     `json:"auto_approve_programs,omitempty"`
	Deny         []string     `json:"deny,omitempty"`
	RequireHuman []string     `json:"require_human,omitempty"`
	OnUnknown    string       `json:"on_unknown,omitempty"`
	Paths        permit.Paths `json:"paths,omitzero"`
	Hosts        []string     `json:"hosts,omitempty"`
	Tools        []string     `json:"tools,omitempty"`
}

// Loop is the pinned part of a loop.
type Loop struct {
	Roles []Role `json:"roles"` // in the order in which they run
	// Tests and Validation are without their time bounds and without the static checks, which are not pinned.
	Tests      config.Tests      `json:"tests"`
	Validation config.Validation `json:"validation"`
	Approval   config.Approval   `json:"approval"`
	Completion config.Completion `json:"completion"`
	PreCommit  []string          `json:"pre_commit_commands"`
	Gates      config.Gates      `json:"gates,omitzero"`
	// Recovery is the resulting policy of the loop. It is nil when the loop has the policy of the Section.
	Recovery Policy `json:"recovery"`
	// Diagnostician is the runner of the diagnostician, or "" if there is none. It is left out of the JSON when it is
	// empty, like Role.Others, so that older pins keep their digests.
	Diagnostician string `json:"diagnostician,omitempty"`
}

// Role holds the runners of a role and their permissions. If Permissions is "", the first runner has its own
// permissions.
type Role struct {
	Name        string `json:"name"`
	Runner      string `json:"runner"`
	Permissions string `json:"permissions"`
	// Others maps each further runner to its permissions. "" means the runner's own permissions. The order of the
	// runners is not pinned.
	Others map[string]string `json:"others,omitempty"`
	// Rest is neither compared nor part of the digest. If a change of the file removes the role, the change is held,
	// and the role runs on with these values.
	Rest *RoleRest `json:"rest,omitempty"`
}

// RoleRest is the part of a role that is not pinned.
type RoleRest struct {
	Model      string        `json:"model,omitempty"`
	Thinking   string        `json:"thinking,omitempty"`
	Timeout    time.Duration `json:"timeout_ns,omitempty"`
	Inactivity time.Duration `json:"inactivity_ns,omitempty"`
	Resume     bool          `json:"resume,omitempty"`
	// Choices lists all runners that may do the role, in order. It is nil when there is only one.
	Choices []config.Choice `json:"choices,omitempty"`
}

// Of returns the Section of a configuration. It fails when the recovery sections amount to more than 8 MiB, or when a
// section cannot be read.
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
		loop := Loop{Tests: l.Tests, Validation: l.Validation, Approval: l.Approval, Completion: l.Completion, PreCommit: list(l.Git.PreCommitCommands), Gates: l.Gates}
		loop.Completion.RequireReports = list(distinct(l.Completion.RequireReports))
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
	s.Protect = config.Protect{Paths: orNone(c.Protect.Paths), Allow: orNone(c.Protect.Allow)}
	s.Permissions = permissionsOf(c.Permissions)
	if s.Webhooks, err = object(c.Webhooks); err != nil {
		return Section{}, fmt.Errorf("reading webhooks of %s: %w", c.Path, err)
	}
	return s, nil
}

// Policy returns the policy of a loop: its own one, or that of the Section.
func (s Section) Policy(loop string) Policy {
	if p := s.Loops[loop].Recovery; p != nil {
		return p
	}
	return s.Recovery
}

// Digest returns the SHA-256, in hex, of the Section as canonical JSON: sorted keys, no white space, no needless
// escapes, and without the values that Compare ignores. Compare finds no change between two Sections exactly when their
// digests are equal.
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

// bare returns the loop without the values that Compare ignores.
func (l Loop) bare() Loop {
	l.Roles = slices.Clone(l.Roles)
	for i := range l.Roles {
		l.Roles[i].Rest = nil
	}
	return l
}

// canonical writes v as JSON with the keys of every object sorted. It panics if v cannot be written as JSON, which
// cannot happen with the values of a Section.
func canonical(v any) []byte { return bytes.TrimSuffix(encode(shown(v)), []byte("\n")) }

// shown converts v to plain JSON values.
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
	err := text.Reason(dec.Decode(&v))
	return v, err
}

// object decodes a JSON object. It returns an empty map if raw is nil.
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

// list copies a list. It returns an empty list for nil, for keys where both mean the same.
func list(in []string) []string { return append([]string{}, in...) }

// copied returns a copy of a runner that shares no memory with r.
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

// distinct returns the names sorted and without duplicates; nil stays nil.
func distinct(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }
