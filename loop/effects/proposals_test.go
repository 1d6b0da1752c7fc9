package effects

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/execute"
)

const recProposal = `{"version": 1, "timestamp": "2026-01-23T05:36:33Z", "category": "dependency", "severity": "blocking",
"diagnosis": {"error_pattern": "Host .* binary", "root_cause": "a mismatch", "evidence": ["test-output.txt:3: Host x"]},
"recovery": {"command": "npm ci", "working_dir": ".", "timeout_seconds": 300, "expected_outcome": "it starts", "confidence": "high"},
"fallback": {"command": "npm i --force", "confidence": "medium"}}`

// recTaking is a loop whose tester has left a proposal.
func recTaking(r *recHost, text string) loop.State {
	r.put(r.Paths.File(recovery.ProposalFile), text)
	s := recState(loop.TakeProposal, "")
	s.Recoveries.Proposed = 4
	s.Recovery = &loop.RecoveryState{Phase: loop.PhaseTaking, Role: "tester"}
	return s
}

// kept is what is in the archive: one proposal.
func (r *recHost) kept(file string) (a archived) {
	r.t.Helper()
	names := r.names(r.Paths.Proposals())
	if len(names) != 1 || file != ".superloop/loops/l/proposals/"+names[0] {
		r.t.Fatalf("%q, there is %v", file, names)
	}
	r.noErr(json.Unmarshal([]byte(r.read(filepath.Join(r.Paths.Proposals(), names[0]))), &a))
	return a
}

// Conforms: 004-1-file, 004-p1.3
func TestTake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		role, source, output string
		ran                  bool
		policy               string
		verdict              action.Decision
		rule                 string
		seen                 *bool
	}{
		"asked":           {"tester", "tester", "Host a binary", false, `{}`, action.Human, recovery.RuleUnknown, new(true)},
		"listed":          {"", "superloop", "nothing of it", false, `{"auto_approve": ["npm ci"]}`, action.Auto, recovery.RuleAutoApprove, new(false)},
		"listed, and ran": {"tester", "tester", "", true, `{"auto_approve": ["npm ci"]}`, action.Human, loop.RuleRan, nil},
		"asked, and ran":  {"tester", "tester", "", true, `{}`, action.Human, recovery.RuleUnknown, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			r.config.Recovery = []byte(c.policy)
			s := recTaking(r, recProposal)
			s.Pending.Role = c.role
			a := action.Draft{Command: "npm ci", WorkingDir: ".", TimeoutMS: 300_000, Expected: "it starts", Confidence: "high"}.Action()
			other := action.Draft{Command: "npm i --force", WorkingDir: ".", TimeoutMS: 300_000, Confidence: "medium"}.Action()
			s.Recoveries.Handled = []string{"of-another-file"}
			if c.ran {
				s.Recoveries.Ran = []string{"x", a.Digest}
			}
			if c.output != "" {
				r.put(r.Paths.File("test-output.txt"), c.output)
			}
			got, err := r.perform(s)
			f := recAs[loop.Proposed](t, got, err)
			digest := sha([]byte(recProposal))
			want := loop.Proposed{Of: loop.Of{EffectID: "e-1"}, N: 5, Source: c.source, Role: c.role, Digest: digest, File: ".superloop/loops/l/proposals/5-" + digest[:12] + ".json",
				Category: "dependency", Severity: "blocking", RootCause: "a mismatch", Pattern: "Host .* binary", Evidence: []string{"test-output.txt:3: Host x"},
				Action: a, Else: &other, ProposedAt: time.Date(2026, 1, 23, 5, 36, 33, 0, time.UTC), Verdict: string(c.verdict), Rule: c.rule, Reason: f.Reason, PatternSeen: c.seen, PolicyDigest: r.policies.InForce()[0].Digest, InputsDigest: "in-1"}
			if !reflect.DeepEqual(f, want) || f.Reason == "" {
				t.Errorf("%+v\nwant %+v", f, want)
			}
			k := r.kept(f.File)
			if k.N != 5 || !k.TakenAt.Equal(recStart) || k.RunID != "run-1" || k.Iteration != 3 || k.Digest != digest || k.Verdict != string(c.verdict) || k.Reason != f.Reason ||
				k.Changes != "the diff" || k.Decision == nil || k.Problems != nil || len(k.Proposal) == 0 || k.Text != "" || k.Base64 != "" {
				t.Errorf("%+v", k)
			}
			if r.recoveries.Lies(s) {
				t.Error("it lies there still")
			}
			// A supervisor that dies now finds it again.
			again, err := r.perform(s)
			if err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("%+v %v", again, err)
			}
		})
	}
}

func TestTakeCutsTheTimeout(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.config.Recovery = []byte(`{"max_timeout_seconds": 60}`)
	got, err := r.perform(recTaking(r, recProposal))
	if f := recAs[loop.Proposed](t, got, err); f.TimeoutMS != 60_000 || len(f.Notes) != 1 {
		t.Errorf("%+v", f)
	}
}

// What the tester says about the cause is recorded without a token that it quotes. The command stays as it is.
func TestTakeMasksTheDiagnosis(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5"
	r := newRecHost(t)
	text := strings.NewReplacer("a mismatch", "push with "+token, "Host x", "said "+token).Replace(recProposal)
	got, err := r.perform(recTaking(r, text))
	if f := recAs[loop.Proposed](t, got, err); f.RootCause != "push with <secret>" || f.Evidence[0] != "test-output.txt:3: said <secret>" || f.Command != "npm ci" {
		t.Errorf("%+v", f)
	}
}

func TestTakeInvalid(t *testing.T) {
	t.Parallel()
	link := func(r *recHost) {
		r.noErr(os.Remove(r.Paths.File(recovery.ProposalFile)))
		r.noErr(os.Symlink("/etc/hostname", r.Paths.File(recovery.ProposalFile)))
	}
	verdict := func(rule string) func(*recHost) {
		return func(r *recHost) {
			r.executor.change = func(j *execute.Judgement) { j.Decision, j.Rule, j.Reason = action.Invalid, rule, "because" }
		}
	}
	for name, c := range map[string]struct {
		text    string
		spoil   func(*recHost)
		code    string // of the first problem
		pointer string
		command string
		rule    string
		kept    func(archived) bool
	}{
		"no JSON":       {"npm ci", nil, "syntax", "", "", "", func(a archived) bool { return a.Text == "npm ci" && a.Proposal == nil && a.Base64 == "" }},
		"not its shape": {`{"version": 1}`, nil, "", "", "", "", func(a archived) bool { return string(a.Proposal) != "" && a.Text == "" }},
		"no text": {"\xff\xfe", nil, "", "", "", "", func(a archived) bool {
			return a.Base64 == base64.StdEncoding.EncodeToString([]byte("\xff\xfe")) && a.Text == ""
		}},
		"a link":       {"", link, "unsafe_file", "", "", "", func(a archived) bool { return a.Problems != nil && a.Digest == "" && a.Text == "" }},
		"no directory": {recProposal, verdict(recovery.RuleWorkingDir), recovery.RuleWorkingDir, "/recovery/working_dir", "npm ci", recovery.RuleWorkingDir, func(a archived) bool { return a.Proposal != nil }},
		"no command":   {recProposal, verdict(recovery.RuleBlank), recovery.RuleBlank, "/recovery/command", "npm ci", recovery.RuleBlank, func(a archived) bool { return a.Proposal != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			s := recTaking(r, c.text)
			if c.spoil != nil {
				c.spoil(r)
			}
			got, err := r.perform(s)
			f := recAs[loop.ProposalInvalid](t, got, err)
			if f.Role != "tester" || f.EffectID != "e-1" || f.Command != c.command || f.Rule != c.rule || f.Reason == "" || len(f.Problems) == 0 || (f.Digest == "") != (name == "a link") {
				t.Fatalf("%+v", f)
			}
			if p := f.Problems[0]; c.code != "" && (p.Code != c.code || p.Pointer != c.pointer) || p.Message == "" {
				t.Errorf("%+v", p)
			}
			k := r.kept(f.File)
			if k.Verdict != "invalid" || k.Reason != f.Reason || k.Digest != f.Digest || (k.Problems == nil) != (c.rule != "") || k.Decision != nil || k.Changes != "" || !c.kept(k) {
				t.Errorf("%+v", k)
			}
			if name := filepath.Base(f.File); f.Digest == "" && name != "5-unreadable-20261122T120000.000Z.json" {
				t.Error(name)
			}
		})
	}
}

func TestTakeStale(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recTaking(r, recProposal)
	digest := sha([]byte(recProposal))
	s.Recoveries.Handled = []string{"", digest}
	got, err := r.perform(s)
	f := recAs[loop.ProposalStale](t, got, err)
	if f.Role != "tester" || f.EffectID != "e-1" || f.Rule != loop.RuleStale || f.Digest != digest || f.Command != "" || !strings.Contains(f.Reason, "already") {
		t.Errorf("%+v", f)
	}
	if k := r.kept(f.File); k.Verdict != "stale" || k.Reason != f.Reason || len(r.executor.judged) != 0 {
		t.Errorf("%+v", k)
	}
}

func TestTakeNothing(t *testing.T) {
	t.Parallel()
	want := loop.ProposalStale{Of: loop.Of{EffectID: "e-1"}, Role: "tester", Rule: loop.RuleStale, Reason: "it was gone when it was to be read"}
	for name, spoil := range map[string]func(*recHost){
		"nothing at all": func(*recHost) {},
		"two of before": func(r *recHost) {
			r.put(filepath.Join(r.Paths.Private, "recovery-1.json"), recProposal)
			r.put(filepath.Join(r.Paths.Private, "recovery-2.json"), recProposal)
		},
		"other files": func(r *recHost) {
			r.put(filepath.Join(r.Paths.Private, "recovery-1.txt"), recProposal)
			r.put(filepath.Join(r.Paths.Private, "other.json"), recProposal)
		},
	} {
		r := newRecHost(t)
		s := recTaking(r, "x")
		r.noErr(os.Remove(r.Paths.File(recovery.ProposalFile)))
		spoil(r)
		if got, err := r.perform(s); err != nil || got != loop.Fact(want) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		if r.names(r.Paths.Proposals()) != nil {
			t.Errorf("%s: something is kept", name)
		}
	}
}

func TestTakeInTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		spoil func(*recHost, *loop.State)
		want  error
	}{
		"the disk is full":               {recProposal, func(r *recHost, _ *loop.State) { r.fail["proposal:write"] = syscall.ENOSPC }, syscall.ENOSPC},
		"the archive's disk is full":     {recProposal, func(r *recHost, _ *loop.State) { r.fail["proposals:write"] = syscall.ENOSPC }, syscall.ENOSPC},
		"no room for the archive":        {recProposal, func(r *recHost, _ *loop.State) { r.fail["proposals:mkdir"] = syscall.EDQUOT }, syscall.EDQUOT},
		"an invalid one and a full disk": {"{", func(r *recHost, _ *loop.State) { r.fail["proposals:write"] = syscall.ENOSPC }, syscall.ENOSPC},
		"a stale one and a full disk": {"{", func(r *recHost, s *loop.State) {
			s.Recoveries.Handled = []string{sha([]byte("{"))}
			r.fail["proposals:write"] = syscall.ENOSPC
		}, syscall.ENOSPC},
		"nobody can judge": {recProposal, func(r *recHost, _ *loop.State) { r.executor.judgeErr = errRec }, errRec},
		"the private directory is gone": {recProposal, func(r *recHost, _ *loop.State) {
			r.noErr(os.Rename(r.Paths.Private, r.Paths.Private+"-"))
			r.put(r.Paths.Private, "")
		}, syscall.ENOTDIR},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			s := recTaking(r, c.text)
			c.spoil(r, &s)
			got, err := r.perform(s)
			if r.wantErr(err, c.want); err == nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestPatternSeen(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.put(r.Paths.File("test-output.txt"), "it fails\nxyz")
	long := strings.Repeat("x", 999) + "?"
	for pattern, want := range map[string]*bool{"": nil, "(": nil, "fails$": new(false), "(?m)fails$": new(true), long: new(false), long + "?": nil} {
		if got := r.PatternSeen(pattern); !reflect.DeepEqual(got, want) {
			t.Errorf("%.10q: %v", pattern, got)
		}
	}
	r.put(r.Paths.File("test-output.txt"), "")
	if got := r.PatternSeen("x*"); got != nil {
		t.Error(*got)
	}
	r.put(r.Paths.File("test-output.txt"), "begin"+strings.Repeat("-", 3<<20)+"end")
	if b, e := r.PatternSeen("begin"), r.PatternSeen("end"); b == nil || !*b || e == nil || !*e {
		t.Error("both ends of a long output are to be looked at")
	}
	r.noErr(os.Remove(r.Paths.File("test-output.txt")))
	if got := r.PatternSeen("x"); got != nil {
		t.Error(*got)
	}
}

func TestTheTimeInTheArchiveNeverGoesBack(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recTaking(r, recProposal)
	s.UpdatedAt = recStart.Add(time.Hour)
	got, err := r.perform(s)
	if k := r.kept(recAs[loop.Proposed](t, got, err).File); !k.TakenAt.Equal(s.UpdatedAt) {
		t.Error(k.TakenAt)
	}
}

// TestTakenIsNotWhatWasWritten: what lies at the place of a proposal that was taken ends no run.
func TestTakenIsNotWhatWasWritten(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(r *recHost, path string){
		"a directory": func(r *recHost, path string) { r.noErr(os.Mkdir(path, 0o755)) },
		"too large":   func(r *recHost, path string) { r.put(path, strings.Repeat(" ", 1<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			s := recTaking(r, recProposal)
			r.noErr(os.Remove(r.Paths.File(recovery.ProposalFile)))
			put(r, filepath.Join(r.Paths.Private, "recovery-1.json"))
			got, err := r.perform(s)
			recAs[loop.ProposalStale](t, got, err)
		})
	}
}

// TestADeepProposalIsInvalid: it is kept as text, because an indented copy would need the square of its depth.
func TestADeepProposalIsInvalid(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recTaking(r, strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000))
	got, err := r.perform(s)
	f := recAs[loop.ProposalInvalid](t, got, err)
	if len(f.Problems) == 0 || f.Problems[0].Code != "too_deep" {
		t.Errorf("%+v", f.Problems)
	}
	if kept := r.read(filepath.Join(r.Paths.Repo, f.File)); len(kept) > 200<<10 {
		t.Errorf("its record has %d bytes", len(kept))
	}
}
