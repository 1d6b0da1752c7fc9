// Command replay prints the state that a journal leads to. The journal is one file, such as superloop events --json
// prints; it reads no sealed segments. It imports package loop and nothing else of superloop. So
// its size shows what a program carries that only reads journals (bench measures it).
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/superloop/superloop/loop"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "which journal? type: replay .superloop/loops/ID/events.jsonl")
		os.Exit(2)
	}
	if err := replay(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func replay(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fold := loop.NewReplay()
	for raw := range bytes.Lines(data) {
		line, err := loop.ParseLine(bytes.TrimRight(raw, "\n"))
		if err == nil {
			err = fold.Add(line)
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
	}
	s := fold.State
	_, err = fmt.Printf("%s: %s %s in iteration %d after %d events\n", s.LoopID, s.Status, s.Reason, s.Iteration, fold.Events)
	return err
}
