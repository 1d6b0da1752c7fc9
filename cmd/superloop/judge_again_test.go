package main

import (
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/replay"
)

// judgeAgain reads every journal below a directory, and gives each verdict in it again, with its rule and its reason: by
// the policies that are kept beside the journal, the facts of the events, and the course of the run.
func judgeAgain(t testscript.T, dir string) {
	journals, _ := filepath.Glob(filepath.Join(dir, "*", ".superloop", "loops", "*", "events.jsonl"))
	for _, file := range journals {
		f := replay.New(replay.Options{Kept: keptBeside(file)})
		if err := journal.Read(file, 1, f.Add); err != nil {
			continue // a script about journals that cannot be read
		}
		for _, d := range f.Report().Decisions {
			if d.Now.Verdict != d.Was.Verdict || d.Now.Rule != d.Was.Rule || d.Now.Reason != d.Was.Reason || !d.Now.NotBefore.Equal(d.Was.NotBefore) {
				t.Fatal(file, ": judged again, ", d.Command, " is ", d.Now, "; event ", d.Seq, " has ", d.Was, "; missing: ", d.Missing)
			}
		}
	}
}
