package api

import (
	"context"
	"fmt"
	"time"

	"github.com/superloop/superloop/loop/replay"
	"github.com/superloop/superloop/recovery"
)

// Explained is what superloop policy check --json prints.
type Explained struct {
	recovery.Verdict
	Command string `json:"command"`
	// Display is the command as it is safe to show: on one line, with hidden characters as numbers.
	Display    string         `json:"display"`
	WorkingDir string         `json:"working_dir"`
	Loop       string         `json:"loop,omitempty"`
	EntryText  string         `json:"entry_text,omitempty"`
	PatternIs  string         `json:"pattern_text,omitempty"`
	Pointer    string         `json:"pointer,omitempty"` // to the rule, in the configuration
	File       string         `json:"file"`
	Line       int            `json:"line,omitempty"`
	Column     int            `json:"column,omitempty"`
	Nearest    *recovery.Near `json:"nearest,omitempty"`
}

// Placed is a finding of policy lint and its place in the file.
type Placed struct {
	recovery.Finding
	Loop   string `json:"loop,omitempty"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// Linted is what superloop policy lint --json prints.
type Linted struct {
	Findings []Placed          `json:"findings"`
	Worst    recovery.Severity `json:"worst"`
}

type checkPolicyIn struct {
	Body struct {
		InRepo
		Command    string `json:"command" maxLength:"65536" doc:"the command, byte for byte"`
		Loop       string `json:"loop,omitempty" maxLength:"200" doc:"judge by the policy of this loop of the configuration"`
		WorkingDir string `json:"working_dir,omitempty" maxLength:"4096" doc:"where it would run, inside the repository"`
	}
}

func (a *api) policyCheck(ctx context.Context, in *checkPolicyIn) (*body[Says[Explained]], error) {
	repo, err := a.repo(in.Body.InRepo)
	if err != nil {
		return nil, err
	}
	args := []string{"policy", "check", "--repo=" + repo, "--command=" + in.Body.Command, "--json"}
	if in.Body.Loop != "" {
		args = append(args, "--loop="+in.Body.Loop)
	}
	if in.Body.WorkingDir != "" {
		args = append(args, "--working-dir="+in.Body.WorkingDir)
	}
	return say[Explained](ctx, a, VerbCall{Args: args})
}

func (a *api) policyLint(ctx context.Context, in *struct{ Body InRepo }) (*body[Says[Linted]], error) {
	repo, err := a.repo(in.Body)
	if err != nil {
		return nil, err
	}
	return say[Linted](ctx, a, VerbCall{Args: []string{"policy", "lint", "--repo=" + repo, "--json"}})
}

// Replayed is what superloop replay --json prints: past decisions, judged again.
type Replayed struct {
	Since     time.Time         `json:"since,omitzero" doc:"decisions from this time on"`
	Events    int64             `json:"events" doc:"events that were read"`
	Judged    int               `json:"judged" doc:"decisions that were judged again"`
	Differ    int               `json:"differ" doc:"of them: another verdict"`
	Unknown   int               `json:"unknown" doc:"of them: it depends on what the journals do not say"`
	LeftOff   int               `json:"left_off" doc:"older decisions that are not in the list"`
	Decisions []replay.Decision `json:"decisions" nullable:"false" doc:"those that differ or are not known, the oldest first"`
	Policies  []ReplayPolicy    `json:"policies" nullable:"false" doc:"what has judged: the policy of the top level, then those of loops"`
	Unread    []Unread          `json:"unread" nullable:"false" doc:"journals that could not be read to their end"`
}

// ReplayPolicy is a policy that has judged, with the past decisions that each entry has a say in.
type ReplayPolicy struct {
	Loop      string        `json:"loop,omitempty" doc:"the loop that has this policy for itself"`
	Loops     []string      `json:"loops" nullable:"false" doc:"the loops whose journals it has judged"`
	Digest    string        `json:"digest"`
	File      string        `json:"file"`
	Enabled   bool          `json:"enabled"`
	OnUnknown string        `json:"on_unknown"`
	Unlisted  int           `json:"unlisted" doc:"decisions about commands that no list names"`
	Entries   []PolicyEntry `json:"entries" nullable:"false"`
	Findings  []Placed      `json:"findings" nullable:"false" doc:"what is odd in it, as superloop policy lint"`
	Settings  Object        `json:"settings" doc:"the recovery section with every default written out; it can be a candidate"`
}

// PolicyEntry is an entry of a policy.
type PolicyEntry struct {
	List    string `json:"list" doc:"auto_approve or require_human"`
	Text    string `json:"text"`
	Pointer string `json:"pointer"`
	Line    int    `json:"line,omitempty"`
	Hits    int    `json:"hits" doc:"decisions that it has a say in"`
}

// Unread is a journal that could not be read to its end.
type Unread struct {
	Loop  string `json:"loop,omitempty"`
	File  string `json:"file"`
	Error string `json:"error"`
}

// Add counts what a policy has judged in the journal of a loop. r is the report of a fold with this policy.
func (p *ReplayPolicy) Add(loop string, r replay.Report) {
	if loop != "" {
		p.Loops = append(p.Loops, loop)
	}
	p.Unlisted += r.Hits.OnUnknown
	hits := map[string][]int{"auto_approve": r.Hits.AutoApprove, "require_human": r.Hits.RequireHuman}
	seen := map[string]int{}
	for i := range p.Entries {
		list := p.Entries[i].List
		p.Entries[i].Hits += hits[list][seen[list]]
		seen[list]++
	}
}

// mostReplayed is how many decisions an answer holds.
const mostReplayed = 500

type replayPolicyIn struct {
	Body struct {
		InRepo
		Loop   string  `json:"loop,omitempty" maxLength:"200" doc:"only the journal of this loop"`
		Days   int     `json:"days,omitempty" minimum:"1" maximum:"3650" default:"30" doc:"decisions of the last days"`
		Policy *string `json:"policy,omitempty" maxLength:"1048576" doc:"the candidate: a configuration, or a recovery section alone, as the text of a file; missing: the policy in force"`
	}
}

func (a *api) policyReplay(ctx context.Context, in *replayPolicyIn) (*body[Says[Replayed]], error) {
	repo, err := a.repo(in.Body.InRepo)
	if err != nil {
		return nil, err
	}
	call := VerbCall{Args: []string{"replay", "--repo=" + repo, fmt.Sprintf("--since=%dh", 24*in.Body.Days), fmt.Sprintf("--limit=%d", mostReplayed), "--json"}}
	if in.Body.Loop != "" {
		call.Args = append(call.Args, "--loop="+in.Body.Loop)
	}
	if in.Body.Policy != nil {
		call.Args, call.Stdin = append(call.Args, "--policy=-"), []byte(*in.Body.Policy)
	}
	return say[Replayed](ctx, a, call)
}
