package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// repairAgent runs no role until the reviewer, which waits for a line in the FIFO $1.
const repairAgent = `cat > /dev/null
case $SUPERLOOP_ROLE in
tester) echo tested > "$SUPERLOOP_LOOP_DIR/test-report.md" ;;
reviewer)
	echo looked > "$SUPERLOOP_LOOP_DIR/review.md"
	read -r line < "$1"
	echo '<promise>DONE</promise>' ;;
esac
`

const repairRules = `layer: infra
handlers:
  - id: no_mytool
    label: mytool is missing
    description: The check needs mytool.
    category: command_not_found
    match: {any: ['^check: (?P<tool>mytool) is missing']}
    probes: [which]
    options:
      - {id: install, label: Install mytool, strategy: install_dep, dep: mytool, recommended: true}
    examples:
      - {tool: check 1, command: ./check, exit_code: 1, stderr: "check: mytool is missing"}
    counter_examples:
      - {tool: check 1, command: ./check, exit_code: 1, stderr: "check: mytool is old"}
recipes:
  - id: mytool
    label: My tool
    cli: mytool
    category: core
    install: {script: [[./get-tool]]}
`

// TestMetricsOfARepair: a scrape of a run in which a tool was installed whose check asks the wrong question.
//
// Conforms: 001-p4-series
func TestMetricsOfARepair(t *testing.T) {
	t.Parallel()
	n := newTestEnv(t, false)
	for _, dir := range []string{"bin", "config/superloop/recovery"} {
		if err := os.MkdirAll(n.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.env = append(n.env, "XDG_CONFIG_HOME="+n.path("config"), "PATH="+n.path("tools")+":"+os.Getenv("PATH"))
	if err := os.MkdirAll(n.path("tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.write("agent.sh", repairAgent)
	n.write("config/superloop/recovery/own.yaml", repairRules)
	for name, script := range map[string]string{
		"check":    `command -v mytool > /dev/null || { echo "check: mytool is missing" >&2; exit 1; }; mytool check`,
		"get-tool": "cp tool \"$HOME/tools/.new\" && chmod 755 \"$HOME/tools/.new\" && mv \"$HOME/tools/.new\" \"$HOME/tools/mytool\"",
		"tool":     `case "$1" in -*) echo "usage: mytool [check]" >&2; exit 2 ;; esac`,
	} {
		n.write("repo/"+name, "#!/bin/sh\n"+script+"\n")
		if err := os.Chmod(n.path("repo/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"gated": {"command": ["sh", %q, %q]}},
  "recovery": {"auto_approve": ["./get-tool"], "sandbox": {"caches": ["~/tools"]}},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": 1, "completion_promise": "DONE", "completion": {"require_change": false},
    "roles": ["tester", "reviewer"], "tests": {"commands": ["./check"]}}]
}`, n.path("agent.sh"), n.path("gate")))
	if err := syscall.Mkfifo(n.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	gate, err := os.OpenFile(n.path("gate"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	run := n.serve(t)
	n.reviewing(1)
	got := run.scrape()
	name := "superloop_verify_self_repair_total loop=l method=output_detection result=repaired tool=mytool"
	if got[name] != 1 {
		t.Errorf("%s is %v", name, got[name])
	}
	if saved := got["superloop_verify_self_repair_saved_seconds_total loop=l tool=mytool"]; saved < 1 || saved > 3600 {
		t.Errorf("%v s are saved", saved)
	}
	for other := range got {
		if strings.HasPrefix(other, "superloop_verify_self_repair_total") && other != name {
			t.Errorf("%s is there too", other)
		}
	}
	if _, err := io.WriteString(gate, "go\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-run.done; err != nil {
		t.Errorf("the run ended with %v", err)
	}
}
