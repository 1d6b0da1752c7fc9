package failures

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSpecs: what cannot be looked at is refused, with a reason.
func TestSpecs(t *testing.T) {
	t.Parallel()
	for _, p := range []Prevention{
		{Kind: "moon"}, {Kind: CheckPath}, {Kind: CheckPath, Spec: CheckSpec{Path: "a", Want: "pipe"}}, {Kind: CheckPath, Spec: CheckSpec{Path: "a\nb"}},
		{Kind: CheckPermission, Spec: CheckSpec{Path: "a"}}, {Kind: CheckDeps, Spec: CheckSpec{Manager: "apt"}}, {Kind: CheckDisk},
		{Kind: CheckPort, Spec: CheckSpec{Port: 70000, Want: "free"}}, {Kind: CheckPort, Spec: CheckSpec{Port: 80}}, {Kind: CheckTool, Spec: CheckSpec{Name: "/bin/sh"}},
		{Kind: CheckService, Spec: CheckSpec{Address: "example.com:80"}}, {Kind: CheckService, Spec: CheckSpec{Address: "10.0.0.1:80"}},
		{Kind: CheckService, Spec: CheckSpec{Address: "localhost:http"}}, {Kind: CheckAuth}, {Kind: CheckLimit},
	} {
		var ps Preventions
		if _, _, err := ps.Add(p, noon); err == nil || len(ps.Checks) != 0 {
			t.Errorf("%+v is taken", p)
		}
	}
}

// TestRetire: false alarms, checks that never hit and old ones are given up; what
// saves runs stays; a retired one that is added again wakes up.
func TestRetire(t *testing.T) {
	t.Parallel()
	var ps Preventions
	add := func(name string) string {
		p, _, err := ps.Add(Prevention{Kind: CheckTool, Spec: CheckSpec{Name: name}, Reason: "r", AddedBy: "rules"}, noon)
		must(t, err)
		return p.ID
	}
	of := func(id string) Prevention {
		for _, p := range ps.Checks {
			if p.ID == id {
				return p
			}
		}
		t.Fatalf("%s is gone", id)
		return Prevention{}
	}
	hit := func(id, state string, n int, at time.Time) {
		for range n {
			ps.Note([]Finding{{ID: id, State: state}}, at)
		}
	}
	idle, alarms, good, old := add("idle"), add("alarms"), add("good"), add("old")
	hit(idle, CheckOK, idleRuns-1, noon)
	if !of(idle).Active() {
		t.Error("too early")
	}
	if gone := ps.Note([]Finding{{ID: idle, State: CheckUnknown}}, noon); len(gone) != 1 || gone[0].ID != idle || gone[0].RetiredOf == "" {
		t.Errorf("%+v", gone)
	}
	hit(alarms, CheckBroken, 3, noon)
	ps.Saved(alarms)
	ps.Overrule(alarms, noon)
	if !of(alarms).Active() {
		t.Error("one false alarm is none")
	}
	ps.Overrule(alarms, noon)
	if of(alarms).Active() {
		t.Errorf("%+v", of(alarms))
	}
	hit(good, CheckBroken, 1, noon)
	ps.Saved(good)
	hit(good, CheckOK, 2*idleRuns, noon)
	if p := of(good); !p.Active() || p.Hits != 1 || p.Prevented != 1 || p.Runs != 2*idleRuns+1 {
		t.Errorf("%+v", p)
	}
	hit(old, CheckBroken, 1, noon)
	hit(old, CheckOK, quietRuns, noon.Add(59*24*time.Hour))
	if !of(old).Active() {
		t.Error("it is not old yet")
	}
	hit(old, CheckOK, 1, noon.Add(61*24*time.Hour))
	if of(old).Active() {
		t.Error("it is old")
	}
	var active []string
	for _, p := range ps.Checks {
		if p.Active() {
			active = append(active, p.ID)
		}
	}
	if len(active) != 1 || active[0] != good {
		t.Errorf("%q", active)
	}
	if _, fresh, err := ps.Add(Prevention{Kind: CheckTool, Spec: CheckSpec{Name: "good"}}, noon); fresh || err != nil || of(good).Runs == 0 {
		t.Error("it is added twice")
	}
	if _, fresh, _ := ps.Add(Prevention{Kind: CheckTool, Spec: CheckSpec{Name: "old"}}, noon); !fresh || !of(old).Active() || len(ps.Checks) != 4 {
		t.Error("it does not wake up")
	}
	if !ps.Retire(good, "an operator says so", noon) || of(good).Active() || ps.Retire(good, "again", noon) {
		t.Error("an operator cannot retire it")
	}
	for n := range 3 * maxChecks {
		add(fmt.Sprint("more", n))
	}
	if len(ps.Checks) != maxChecks {
		t.Errorf("%d checks", len(ps.Checks))
	}
}

// TestLocalAddress: an address is split as package net splits it, and a host is
// this machine where package net says so.
func TestLocalAddress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"[", "]", ":", "::1", "127.0.0.1", "localhost", "80", "::ffff:127.0.0.1", "%lo", "::ffff:10.0.0.1", "10.0.0.1", "a", "01", "."}), 0, 6).Draw(rt, "parts")
		addr := strings.Join(parts, "")
		host, port, err := net.SplitHostPort(addr)
		n, noNumber := strconv.Atoi(port)
		ip := net.ParseIP(host)
		want := ""
		switch {
		case err != nil:
			want = fmt.Sprintf("address %q is neither host:port nor the path of a socket", addr)
		case noNumber != nil || n < 1 || n > 65535:
			want = fmt.Sprintf("port %q, it may be 1 to 65535", port)
		case host != "localhost" && (ip == nil || !ip.IsLoopback()):
			want = fmt.Sprintf("host %q is another machine; only this one is asked", host)
		}
		got := ""
		if err := localAddress(addr); err != nil {
			got = err.Error()
		}
		if got != want {
			rt.Fatalf("%q: %q, net says %q", addr, got, want)
		}
	})
}

func TestNewCheckOfNothing(t *testing.T) {
	t.Parallel()
	if p := NewCheck(CheckPort, CheckSpec{Port: 70000, Want: "free"}, "r", AddedByConfig); p.Valid() == nil {
		t.Error("port 70000 is taken for one")
	}
}

// TestScopes: a learned check is of one loop and role, and of the runners that had the failure; the same failure of
// another runner widens it; another role has its own; one false alarm retires it.
func TestScopes(t *testing.T) {
	t.Parallel()
	fails := func(sig string, a Agent) Entry { return Entry{Signature: sig, Agent: a} }
	s := ScopeOf(work, []Entry{fails("x", carol), fails("y", bob), fails("x", alice), fails("x", alice)})
	if s.Loop != work.Loop || s.Role != work.Role || strings.Join(s.Runners, " ") != strings.Join(sorted(alice.Runner, carol.Runner), " ") {
		t.Fatalf("%+v", s)
	}
	var ps Preventions
	learn := func(s Scope) (Prevention, bool) {
		t.Helper()
		p, fresh, err := ps.Add(Prevention{Kind: CheckTool, Spec: CheckSpec{Name: "jq"}, Scope: s, AddedBy: ByRules}, noon)
		if err != nil {
			t.Fatal(err)
		}
		return p, fresh
	}
	a, _ := learn(Scope{"l", "tester", []string{"a"}})
	if _, again := learn(Scope{"l", "tester", []string{"a"}}); again {
		t.Error("it is learned twice")
	}
	b, wider := learn(Scope{"l", "tester", []string{"b"}})
	if !wider || a.ID != b.ID || !b.Stops("l", "tester", "a") || !b.Stops("l", "tester", "b") || b.Stops("l", "tester", "c") || b.Stops("l", "planner", "a") || b.Stops("m", "tester", "a") {
		t.Errorf("%+v", b)
	}
	if p, _ := learn(Scope{"l", "planner", []string{"a"}}); p.ID == a.ID {
		t.Error("two roles share a check")
	}
	own := NewCheck(CheckTool, CheckSpec{Name: "jq"}, "r", AddedByConfig)
	if own.ID == a.ID || own.Learned() || !own.Stops("m", "planner", "c") {
		t.Errorf("%+v", own)
	}
	if !ps.Overrule(a.ID, noon) || ps.find(a.ID).Active() {
		t.Error("a false alarm does not retire it")
	}
	if p, _ := learn(Scope{"l", "tester", []string{"c"}}); !p.Active() || p.Stops("l", "tester", "a") {
		t.Errorf("learned again, with what it was retired for: %+v", p)
	}
}

func sorted(s ...string) []string { slices.Sort(s); return s }
