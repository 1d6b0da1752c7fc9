package webtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// threeLevels are rules by which each remedy fails until another one has worked.
const threeLevels = staleIndex + `  - id: locked_store
    label: The store is locked
    description: Another program has the lock of the store.
    category: environment
    match: {any: ['^mystore: the store is locked']}
    options:
      - {id: unlock, label: Unlock the store, strategy: env_fix, recommended: true, confidence: 0.9, commands: [[./unlock]], expect: the store is free}
      - {id: wait, label: Wait for the store, strategy: env_fix, confidence: 0.4, commands: [[./wait]], expect: the store is free}
    examples:
      - {tool: mystore 1, command: ./refresh, exit_code: 4, stderr: "mystore: the store is locked"}
    counter_examples:
      - {tool: mystore 1, command: ./refresh, exit_code: 4, stderr: "mystore: no store"}
  - id: missing_key
    label: The key is missing
    description: The key of the store is missing.
    category: environment
    match: {any: ['^mykey: the key is missing']}
    options:
      - {id: key, label: Make the key, strategy: env_fix, recommended: true, confidence: 0.9, commands: [[./key]], expect: the key is there}
    examples:
      - {tool: mykey 1, command: ./unlock, exit_code: 5, stderr: "mykey: the key is missing"}
    counter_examples:
      - {tool: mykey 1, command: ./unlock, exit_code: 5, stderr: "mykey: no store"}
`

// A plan of three levels is told on one line, and unfolded it says how it went.
func TestPlanOfThreeLevels(t *testing.T) {
	w := begin(t)
	own := w.root + "/home/.config/superloop/recovery/own.yaml"
	if err := os.WriteFile(own, []byte(threeLevels), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(own, []byte(staleIndex), 0o600) })
	repo := w.loop(t, spec{repo: "levels", id: "levels", proposal: proposes("rm -rf x")})
	asks(t, repo, "levels")
	for name, text := range map[string]string{"refresh": "[ -f free ] || { echo 'mystore: the store is locked' >&2; exit 4; }; touch ok",
		"unlock": "[ -f thekey ] || { echo 'mykey: the key is missing' >&2; exit 5; }; touch free", "key": "touch thekey"} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	fix := exec.Command(w.bin, "fix", "--yes", "--", "./check")
	fix.Env, fix.Dir = w.env, repo
	if out, err := fix.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := open(t).enter(w)
	b.visit("/remediation")
	b.until("the plan is on one line", `[...document.querySelectorAll('.recoveries > li')].some((x) => /^done\s*\.\/check\s*levels\s*5 commands run/.test(x.innerText))`)
	eval[bool](b, `[...document.querySelectorAll('details')].every((d) => d.open = true)`)
	b.until("its levels", `/^\.\/check\s*done\s*\.\/refresh\s*done\s*\.\/unlock\s*done$/.test(document.querySelector('.crumbs')?.innerText ?? '')`)
	b.until("what did not work", `document.body.innerText.includes('level 2: ./unlock exit code 5: mykey: the key is missing')`)
}
