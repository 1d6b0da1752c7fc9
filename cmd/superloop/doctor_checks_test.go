package main

import (
	"encoding/json"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

func (n *testEnv) checksReport(code int, args ...string) checksReport {
	n.t.Helper()
	got, out := n.superloop(nil, append([]string{"preflight", "--json"}, args...)...)
	var r checksReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || got != code {
		n.t.Fatalf("it ends with %d, want %d; %v: %s", got, code, err, out)
	}
	return r
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	n := newTestEnv(t, false)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	n.write("repo/.superloop/config.json", strings.Replace(twoRunners, `"loops": [`, `"respond": {"preflight": {"checks": [
	  {"kind": "port", "port": `+port+`, "want": "open"}, {"kind": "limit", "name": "anthropic"}]}}, "loops": [`, 1))
	r := n.checksReport(0)
	var kinds []string
	for _, c := range r.Checks {
		kinds = append(kinds, string(c.Kind)+" "+c.AddedBy+" "+c.State)
	}
	if got := strings.Join(kinds, ", "); got != "disk superloop ok, permission superloop ok, port configuration ok, limit configuration ok" || len(r.Off) != 0 {
		t.Errorf("the checks are %s; off for %v", got, r.Off)
	}
	ids := map[string]string{}
	for _, c := range r.Checks {
		ids[string(c.Kind)] = c.ID
	}

	// An operator adds one; it is found broken until the file is there.
	for _, want := range []string{"path-", "is looked at already"} {
		if code, out := n.superloop(nil, "preflight", "--add", "path", "--path", "vendor/lib", "--want", "dir", "--reason", "the build needs it"); code != 0 || !strings.Contains(out, want) {
			t.Errorf("--add gives %d: %s", code, out)
		}
	}
	r = n.checksReport(exitFailed)
	last := r.Checks[len(r.Checks)-1]
	if last.Kind != failures.CheckPath || last.State != failures.CheckBroken || last.Reason != "the build needs it" || last.AddedBy == "" || last.Runs != 0 {
		t.Fatalf("%+v", last)
	}
	code, out := n.superloop(nil, "preflight", "--loop", "l")
	if code != exitFailed || !strings.Contains(out, "vendor/lib is not there") || !strings.Contains(out, "5 checks, 1 broken\n") {
		t.Errorf("%d\n%s", code, out)
	}
	if err := os.MkdirAll(n.path("repo/vendor/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := n.checksReport(0, "--loop", "l"); len(r.Checks) != 5 {
		t.Errorf("%+v", r.Checks)
	}

	// What else a loop knows when it looks.
	ln.Close()
	paths := sharedPlaces(t, n)
	account := agent.AccountOf(agent.Request{CLI: agent.CLI{Command: []string{"claude"}}}, n.env)
	if err := cooldown.New(durable.OS(), paths.Cooldowns()).Set(cooldown.Cooldown{Account: account, Class: class.Limit, Until: time.Now().Add(2 * time.Hour), Told: true}); err != nil {
		t.Fatal(err)
	}
	_, out = n.superloop(nil, "preflight")
	for _, want := range []string{"nothing listens on port " + port, "the limit of anthropic is not over", "5 checks, 2 broken"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}

	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitNothing, "always looked at", []string{"--retire", ids["disk"]}},
		{exitNothing, "stands in the configuration of loop l", []string{"--retire", ids["port"]}},
		{exitNotFound, "no check has the id", []string{"--retire", "path-nothing"}},
		{0, "not looked at any more", []string{"--retire", last.ID, "--why", "not needed"}},
		{exitNothing, "was retired before", []string{"--retire", last.ID}},
		{exitUsage, "there is no such kind; use one of path, permission", []string{"--add", "moon"}},
		{exitUsage, "takes --path and --free-mb, and no --port", []string{"--add", "disk", "--port", "7"}},
		{exitUsage, "it needs a path", []string{"--add", "path"}},
		{exitUsage, "is another machine", []string{"--add", "service", "--address", "192.0.2.1:80"}},
		{exitUsage, "--reason belongs to --add", []string{"--reason", "x"}},
		{exitUsage, "--why belongs to --retire", []string{"--why", "x"}},
		{exitUsage, "are two things", []string{"--add", "tool", "--name", "git", "--retire", "x"}},
		{exitUsage, "takes no --loop", []string{"--retire", "x", "--loop", "l"}},
	} {
		if code, out := n.superloop(nil, append([]string{"preflight"}, c.args...)...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%v gives %d: %s", c.args, code, out)
		}
	}
	if r := n.checksReport(exitFailed); len(r.Checks) != 4 || len(r.Retired) != 1 || !strings.HasPrefix(r.Retired[0].RetiredOf, "not needed (") {
		t.Errorf("%+v", r)
	}
}

// TestLookAt: a check is made once in each place, keeps what it has found before, and
// what cannot be looked at is said to be unknown.
func TestLookAt(t *testing.T) {
	t.Parallel()
	here, there := t.TempDir(), t.TempDir()
	configured := failures.NewCheck(failures.CheckPath, failures.CheckSpec{Path: "x"}, "r", failures.AddedByConfig)
	learned := configured
	learned.AddedBy, learned.Hits, learned.Prevented = "rules", 7, 3
	retired := failures.NewCheck(failures.CheckPath, failures.CheckSpec{Path: "y"}, "r", "rules")
	retired.Retired = time.Now()
	odd := failures.NewCheck("moon", failures.CheckSpec{}, "r", failures.AddedByConfig)
	if err := os.WriteFile(there+"/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rows := lookAt(t.Context(), []checkedDir{{here, []failures.Prevention{configured, configured, odd}}, {there, nil}},
		failures.Preventions{Checks: []failures.Prevention{learned, retired}}, preflight.Look{Now: time.Now()})
	if len(rows) != 3 || rows[0].State != failures.CheckBroken || rows[0].Hits != 7 || rows[0].AddedBy != failures.AddedByConfig || rows[0].Dir != here ||
		rows[1].State != failures.CheckUnknown || !strings.Contains(rows[1].Why, "no such kind") || rows[2].State != failures.CheckOK || rows[2].Dir != there {
		t.Errorf("%+v", rows)
	}
	var b strings.Builder
	if err := printChecks(&b, checksReport{Checks: rows, Off: []string{"l"}}); err != nil || strings.Count(b.String(), "in "+here+":\n")+strings.Count(b.String(), "in "+there+":\n") != 2 ||
		!strings.Contains(b.String(), "the configuration of loop l switches them off") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
