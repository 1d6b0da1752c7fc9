// Command claude is a peer of superloop for measurements: it speaks claude's control protocol, asks for what peer.json in
// its directory says, and writes for each answer when it asked and when it was answered to asked-LOOP.jsonl.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type plan struct {
	Requests int      // how many
	EveryMS  int      // the time between two requests
	Commands []string // one after the other; {} is the number of the request
}

func main() {
	for _, a := range os.Args {
		switch a {
		case "--version":
			fmt.Println("9.9.9 (Claude Code)")
			return
		case "--help":
			fmt.Println("Usage: claude [options]\n  -p, --print\n  --output-format <format>\n  --verbose\n  --session-id <uuid>\n  --model <model>\n  --permission-mode <mode>\n  --max-budget-usd <amount>")
			return
		}
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	text, err := os.ReadFile("peer.json")
	if err != nil {
		return err
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	out, err := os.Create("asked-" + filepath.Base(os.Getenv("SUPERLOOP_LOOP_DIR")) + ".jsonl")
	if err != nil {
		return err
	}
	in, say := bufio.NewReaderSize(os.Stdin, 1<<20), json.NewEncoder(os.Stdout)
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for range 2 { // the hook, and the prompt
		if _, err := in.ReadBytes('\n'); err != nil {
			return err
		}
	}
	type object map[string]any
	if err := say.Encode(object{"type": "system", "subtype": "init", "session_id": "s", "model": "m", "cwd": dir, "tools": []string{"Bash"}}); err != nil {
		return err
	}
	next := time.Now()
	for i := range p.Requests {
		time.Sleep(time.Until(next))
		next = next.Add(time.Duration(p.EveryMS) * time.Millisecond)
		id, command := fmt.Sprint("r", i), strings.ReplaceAll(p.Commands[i%len(p.Commands)], "{}", fmt.Sprint(i))
		asked := time.Now()
		if err := say.Encode(object{"type": "control_request", "request_id": id, "request": object{"subtype": "hook_callback", "callback_id": "pre", "tool_use_id": id,
			"input": object{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": object{"command": command}, "tool_use_id": id, "cwd": dir, "session_id": "s"}}}); err != nil {
			return err
		}
		answer, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		allowed := strings.Contains(string(answer), `"permissionDecision":"allow"`)
		if err := json.NewEncoder(out).Encode(object{"asked": asked.UnixNano(), "answered": time.Now().UnixNano(), "allowed": allowed}); err != nil {
			return err
		}
		result := object{"type": "tool_result", "tool_use_id": id, "content": "it is done, or not", "is_error": !allowed}
		if err := say.Encode(object{"type": "user", "message": object{"role": "user", "content": []object{result}}, "session_id": "s"}); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("SUPERLOOP_LOOP_DIR"), "review.md"), fmt.Appendf(nil, "done %d\n", time.Now().UnixNano()), 0o644); err != nil {
		return err
	}
	if !slices.Contains(os.Args, "--verbose") {
		return fmt.Errorf("not started as claude: %q", os.Args)
	}
	if err := say.Encode(object{"type": "result", "subtype": "success", "is_error": false, "result": "<promise>DONE</promise>", "session_id": "s", "num_turns": 1, "total_cost_usd": 0,
		"terminal_reason": "completed", "stop_reason": "end_turn", "usage": object{"input_tokens": 1, "output_tokens": 1}}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
