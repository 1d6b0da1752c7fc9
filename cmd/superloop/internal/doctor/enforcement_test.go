package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/sandbox"
)

var update = flag.Bool("update", false, "write what doctor says of each level anew")

// What doctor says of each level is what people decide by, so it changes only on
// purpose: go test ./cmd/superloop/internal/doctor -run Enforcement -update
func TestEnforcementOfEachLevel(t *testing.T) {
	t.Parallel()
	full := sandbox.Sandbox{Level: sandbox.LandlockMount, LandlockABI: 7, MountNS: true, NetNS: true, Tree: proc.PIDNamespace}
	user := full
	user.UserNS = true
	alone := user
	alone.Tree = proc.Subreaper
	siege := func(err string, through bool) sandbox.Siege {
		return sandbox.Siege{Err: err, Attempts: []sandbox.Attempt{{Way: "127.0.0.1", Said: "permission denied"}, {Way: "MPTCP", Through: through}}}
	}
	standing := siege("", false)
	for name, e := range map[string]Enforcement{
		"mount-user": {Agents: sandbox.ProtectionReport{Level: sandbox.ProtectMount, UserNS: true, Tree: proc.PIDNamespace, Walled: []uint16{7717}, Notes: []string{"agents run in a user namespace"}}, Recoveries: user,
			Wall: standing, RequiredBy: []string{}},
		"mount-leaky": {Agents: sandbox.ProtectionReport{Level: sandbox.ProtectMount, UserNS: true, Tree: proc.PIDNamespace, Walled: []uint16{7717, 8080}}, Recoveries: user,
			Wall: siege("", true), RequiredBy: []string{}},
		"mount-unmeasured": {Agents: sandbox.ProtectionReport{Level: sandbox.ProtectMount, UserNS: true, Tree: proc.PIDNamespace, Walled: []uint16{7717}}, Recoveries: user,
			Wall: siege("the child could not reach a port that nothing closes, so this shows nothing", false), RequiredBy: []string{}},
		"mount-masked": {Agents: sandbox.ProtectionReport{Level: sandbox.ProtectMount, UserNS: true, Tree: proc.Subreaper, Notes: []string{"agents run in a user namespace", "no wall: there is no Landlock"}}, Recoveries: alone,
			Wall: siege("no Landlock: this kernel has none", true), RequiredBy: []string{}},
		"mount-root": {Agents: sandbox.ProtectionReport{Level: sandbox.ProtectMount, Tree: proc.PIDNamespace, Walled: []uint16{7717}, Notes: []string{"agents run as root"}}, Wall: standing, Recoveries: full, RequiredBy: []string{"recovery"}, root: true},
		"advisory-refused": {Agents: sandbox.ProtectionReport{Level: sandbox.ProtectNone, Tree: proc.Cgroup, Notes: []string{"agents are not kept from the configuration: operation not permitted"}},
			Recoveries: sandbox.Sandbox{Level: sandbox.Landlock, LandlockABI: 4, Tree: proc.Cgroup, Cgroup: true, Notes: []string{"no namespaces for mount, network, user: operation not permitted"}},
			RequiredBy: []string{"demo", "other"}},
		"advisory-nothing": {Agents: sandbox.ProtectionReport{Level: sandbox.ProtectNone, Tree: proc.ProcessGroup, Notes: []string{"this system has no mount namespaces"}},
			Recoveries: sandbox.Sandbox{Level: sandbox.None, Tree: proc.ProcessGroup}, RequiredBy: []string{"recovery"}},
		"advisory-optional": {Agents: sandbox.ProtectionReport{Level: sandbox.ProtectNone, Tree: proc.Subreaper}, Recoveries: sandbox.Sandbox{Level: sandbox.None, Tree: proc.Subreaper}, RequiredBy: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e.conclude()
			var list []Check
			for name, judge := range map[string]func(Enforcement) Result{"enforcement": judgeAgents, "enforcement:wall": judgeWall, "enforcement:recovery": judgeRecoveries, "enforcement:limits": judgeLimits} {
				list = append(list, Check{name, func(context.Context) Result { return judge(e) }})
			}
			slices.SortFunc(list, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
			var out bytes.Buffer
			var all []Result
			text := Writer(&out)
			healthy, err := Examine(context.Background(), list, func(r Result) { text(r); all = append(all, r) })
			if err != nil || healthy == (name == "mount-leaky") {
				t.Fatalf("healthy %v: %v", healthy, err)
			}
			data, err := json.MarshalIndent(all, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got := out.String() + "\n" + string(data) + "\n"
			golden := filepath.Join("testdata", "enforcement", name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("%s says otherwise (%v):\n%s", golden, err, got)
			}
		})
	}
}

// It measures the machine that it runs on, and touches nothing of the patient.
func TestEnforcementIsMeasured(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.ran(1)
	w.configure(strings.Replace(configText, `"recovery": {`, `"recovery": {"sandbox": {"required": true}, `, 1))
	before := tree(t, filepath.Dir(w.repo))
	e, err := w.target.measure(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if after := tree(t, filepath.Dir(w.repo)); after != before {
		t.Errorf("it changed files:\n%s\nbefore:\n%s", after, before)
	}
	if !slices.Equal(e.RequiredBy, []string{"recovery"}) || e.Met != (e.Recoveries.Level != sandbox.None) || (e.Level == LevelMount) != (e.Agents.Level == sandbox.ProtectMount) {
		t.Errorf("%+v", e)
	}
	if e.Level == LevelMount && sandbox.Wall() == nil && (!e.walled() || !slices.Equal(e.Agents.Walled, []uint16{layout.DaemonPort})) {
		t.Errorf("%+v", e)
	}
	own := w.target.protection()
	if want := (sandbox.Protection{ReadOnly: []string{w.repo + "/.superloop"}, Writable: []string{w.repo + "/.superloop/loops/demo"}, Hidden: []string{w.state + "/superloop"}}); !slices.Equal(own.ReadOnly, want.ReadOnly) ||
		!slices.Equal(own.Writable, want.Writable) || !slices.Equal(own.Hidden, want.Hidden) {
		t.Errorf("%+v", own)
	}
	// What a link would break is seen as what it is.
	if err := os.Rename(w.repo+"/.superloop", w.repo+"/real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", w.repo+"/.superloop"); err != nil {
		t.Fatal(err)
	}
	if e, err = w.target.measure(context.Background()); err != nil || e.Level != LevelAdvisory || !strings.Contains(strings.Join(e.Agents.Notes, " "), "symbolic link") {
		t.Errorf("%+v %v", e, err)
	}
}

// What doctor waits for before it can say what is enforced.
func BenchmarkMeasure(b *testing.B) {
	w := newWard(b)
	w.ran(1)
	w.configure(configText)
	for b.Loop() {
		if _, err := w.target.measure(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEnforcementRequiredByALoop(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.configure(strings.Replace(configText, `"id": "demo",`, `"id": "demo", "recovery": {"sandbox": {"required": true}},`, 1))
	if got := w.target.requiredBy(); w.target.Config == nil || !slices.Equal(got, []string{"demo"}) {
		t.Errorf("%q (%v)", got, w.target.ConfigErr)
	}
	w.target.Config = nil
	if got := w.target.requiredBy(); got == nil || len(got) != 0 {
		t.Errorf("%q", got)
	}
}
