//go:build linux

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asked is a request of the peer: when it asked and when it had the answer, in ns since 1970.
type asked struct {
	Asked, Answered int64
	Allowed         bool
}

// askers makes a fleet of one repository, whose loops are worked by a peer that speaks claude's control protocol.
func askers(b *testing.B, loops int, permissions, plan string) *fleet {
	b.Helper()
	f := newFleet(b, 1, loops, `"reviewer"`, "")
	file := filepath.Join(f.repos[0], ".superloop/config.json")
	text, err := os.ReadFile(file)
	must(b, err)
	var config map[string]json.RawMessage
	must(b, json.Unmarshal(text, &config))
	config["permissions"] = json.RawMessage(permissions)
	config["runners"] = fmt.Appendf(nil, `{"claude": {"command": [%q], "permissions": "workspace"}}`, build(b, "./testdata/peer", "claude"))
	text, err = json.Marshal(config)
	must(b, err)
	must(b, os.WriteFile(file, text, 0o644))
	must(b, os.WriteFile(filepath.Join(f.repos[0], "peer.json"), []byte(plan), 0o644))
	f.sh(f.repos[0], "git add -A && git commit -q -m peer")
	return f
}

// answers returns what the peer of a loop has noted.
func (f *fleet) answers(loop string) (all []asked) {
	f.b.Helper()
	text, err := os.ReadFile(filepath.Join(f.repos[0], "asked-"+loop+".jsonl"))
	must(f.b, err)
	for line := range bytes.Lines(text) {
		var a asked
		must(f.b, json.Unmarshal(line, &a))
		all = append(all, a)
	}
	return all
}

func report(b *testing.B, name string, ms []float64) {
	b.Helper()
	slices.Sort(ms)
	for _, p := range []int{50, 95, 99} {
		b.ReportMetric(ms[min(len(ms)-1, len(ms)*p/100)], fmt.Sprintf("ms-%s-p%d", name, p))
	}
}

// BenchmarkPermissionsJudge measures from the request of an agent to the answer in its hands, for what the lists decide.
func BenchmarkPermissionsJudge(b *testing.B) {
	var took []float64
	for b.Loop() {
		f := askers(b, 1, `{"mode": "enforce", "auto_approve": ["npm ci"], "auto_approve_programs": ["go", "git status", "git diff", "rg", "ls", "tail"], "deny": ["git push *"], "on_unknown": "deny", "wait": 0}`,
			`{"Requests": 3000, "EveryMS": 1, "Commands": ["go test ./...", "git status --short", "npm ci", "rg -n 'func main' | tail -5 && ls -la", "git diff HEAD~{}", "touch {}"]}`)
		f.sh(f.repos[0], f.exe+" run --loop l0")
		all := f.answers("l0")
		if len(all) != 3000 || !all[0].Allowed || all[5].Allowed {
			b.Fatalf("%d answers", len(all))
		}
		for _, a := range all {
			took = append(took, float64(a.Answered-a.Asked)/1e6)
		}
	}
	b.ReportMetric(0, "ns/op")
	report(b, "answer", took)
}

// BenchmarkPermissionsClick measures from the start of `superloop approve` to the answer in the hands of the agent.
func BenchmarkPermissionsClick(b *testing.B) {
	const clicks = 40
	var whole []float64
	for b.Loop() {
		f := askers(b, 1, `{"mode": "enforce", "wait": "5m"}`, fmt.Sprintf(`{"Requests": %d, "EveryMS": 0, "Commands": ["make {}"]}`, clicks))
		run := exec.Command(f.exe, "run", "--loop", "l0")
		run.Dir, run.Env, run.Stderr = f.repos[0], f.env, &f.log
		must(b, run.Start())
		var clicked []int64
		last := ""
		for range clicks {
			digest := ""
			f.until("the agent asks", func() bool {
				files, _ := filepath.Glob(filepath.Join(f.top, "state/superloop/*/loops/l0/escalation/record.json"))
				if len(files) == 0 {
					return false
				}
				text, _ := os.ReadFile(files[0])
				var kept struct {
					Record struct{ Digest, State string }
				}
				if json.Unmarshal(text, &kept) != nil || kept.Record.State != "pending" || kept.Record.Digest == last {
					return false
				}
				digest = kept.Record.Digest
				return true
			})
			last = digest
			clicked = append(clicked, time.Now().UnixNano())
			f.sh(f.repos[0], f.exe+" approve --loop l0 --yes --digest "+digest)
		}
		must(b, run.Wait())
		for i, a := range f.answers("l0") {
			if !a.Allowed {
				b.Fatalf("request %d was refused", i)
			}
			whole = append(whole, float64(a.Answered-clicked[i])/1e6)
		}
	}
	b.ReportMetric(0, "ns/op")
	report(b, "click", whole)
}

// permissionsVariable makes BenchmarkPermissionsSteady run, and sets for how long.
const permissionsVariable = "SUPERLOOP_BENCH_PERMISSIONS"

// BenchmarkPermissionsSteady lets 20 roles ask 1,000 times a minute together, and reports what the daemon takes at the
// beginning, in the middle and at the end.
func BenchmarkPermissionsSteady(b *testing.B) {
	length, err := time.ParseDuration(os.Getenv(permissionsVariable))
	if err != nil || length < time.Minute {
		b.Skipf("it takes minutes; %s=5m runs it (1m at least)", permissionsVariable)
	}
	const roles = 20
	for b.Loop() {
		f := askers(b, roles, `{"mode": "enforce", "auto_approve_programs": ["go", "git status", "ls"], "deny": ["git push *"], "on_unknown": "deny", "wait": 0}`,
			fmt.Sprintf(`{"Requests": %d, "EveryMS": 1200, "Commands": ["go test ./...", "git status", "ls {}", "go vet ./...", "ls", "go build ./x{}", "git status --short", "go list", "ls -la", "git push origin {}"]}`, int(length/(1200*time.Millisecond))))
		f.start("")
		f.serve(roles)
		f.until("all roles ask", func() bool {
			files, _ := filepath.Glob(filepath.Join(f.repos[0], "asked-*.jsonl"))
			return len(files) == roles
		})
		begin := time.Now()
		<-time.After(15 * time.Second) // until all have begun, and the heap has its size
		at := func(when string) {
			pid := f.daemon.Process.Pid
			open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			var size int64
			files, _ := filepath.Glob(filepath.Join(f.repos[0], ".superloop/loops/*/events.jsonl"))
			for _, file := range files {
				if info, err := os.Stat(file); err == nil {
					size += info.Size()
				}
			}
			b.ReportMetric(f.rss("VmRSS"), "MiB-"+when)
			b.ReportMetric(float64(len(open)), "files-"+when)
			b.ReportMetric(float64(field(fmt.Sprintf("/proc/%d/status", pid), "Threads")), "threads-"+when)
			b.ReportMetric(float64(size)/1024, "KiB-journals-"+when)
		}
		at("begin")
		<-time.After(time.Until(begin.Add(length / 2)))
		at("middle")
		<-time.After(time.Until(begin.Add(length - 5*time.Second)))
		at("end")
		f.until("all loops are completed", func() bool { return f.count("ended") == roles })
		f.end(syscall.SIGTERM)
		var took []float64
		n := 0
		for i := range roles {
			for _, a := range f.answers(fmt.Sprintf("l%d", i)) {
				took = append(took, float64(a.Answered-a.Asked)/1e6)
				n++
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(n)/length.Minutes(), "requests/min")
		report(b, "answer", took)
		if strings.Contains(f.log.String(), `"level":"error"`) {
			b.Error(f.log.String())
		}
	}
}
