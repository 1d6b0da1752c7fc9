package roles

import (
	"strconv"
	"strings"
)

// besideSection is what superloop adds to a prompt that an operator wrote for the only role of a loop. It is short: the
// prompt is the operator's, and the role reads what follows in each run.
func besideSection(in Input) string {
	p := &page{}
	of := ""
	if in.MaxIterations > 0 {
		of = " of at most " + strconv.Itoa(in.MaxIterations)
	}
	p.f("---\n\nsuperloop starts you again and again with the text above, until the work is done; this is run %d%s. "+
		"You have no memory of earlier runs, and nobody answers questions.\n\n", in.Iteration, of)
	p.f("- Notes for your next run: %s. Read that file first if it is there, and keep it short.\n", pathName(in.Notes))
	for _, c := range in.Context {
		if c.Label == checklistLabel {
			p.f("- %s: %s.\n", c.Label, pathName(c.Value))
		}
	}
	p.f("- superloop judges the result itself. Leave no process running when you end.\n")
	return joined(p.String(), attemptSection(in), beforeSection(in.Before), noteSection(in.HumanNote), stuckSection(in), redSection(in),
		testsSection(in.Tests), diagnosisSection(in), besidePromise(in))
}

// redSection names the gates that kept the last run from being the end, if the role had promised that it was.
func redSection(in Input) string {
	var red []string
	promised := false
	for _, g := range in.Gates {
		switch {
		case g[0] == "promise":
			promised = g[1] == "true"
		case g[1] != "ok" && g[1] != "skipped" && g[1] != "true":
			red = append(red, line(g[0], maxWord)+" ("+line(g[1], maxWord)+")")
		}
	}
	if !promised || len(red) == 0 {
		return ""
	}
	return "### Not done yet\n\nThe last run said that the work is done, and superloop saw otherwise: " + strings.Join(red, ", ") + ".\n"
}

func besidePromise(in Input) string {
	if strings.TrimSpace(in.Promise) == "" {
		return "Do not write an XML-style element named `promise` in your last message.\n"
	}
	return "### When everything is done\n\nIf, and only if, all that the text above asks for is done and nothing is left for another run, end your last message with one " +
		"XML-style element named `promise`: its opening tag, then exactly the text of the next block, then its closing tag, on one line.\n\n" +
		fence(in.Promise, maxPromise, 0) +
		"\nOtherwise do not write that element at all, not even to quote it. A promise that the tests contradict ends nothing.\n"
}
