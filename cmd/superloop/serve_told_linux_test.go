package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/api"
)

// asTold asks for events as sentences and for a log as items: each comes once, from whatever place.
func (c client) asTold(l server.Row, at string) {
	t := c.n.t
	t.Helper()
	var all, end, some api.Sentences
	c.ask("GET", at+"/said?limit=1000&after=0", "", 200, &all)
	c.ask("GET", at+"/said?limit=3", "", 200, &end)
	c.ask("GET", at+"/said?limit=2&before=4", "", 200, &some)
	if n := len(all.Sentences); n < 10 || all.First != 1 || all.Sentences[0].Text == "" || all.Sentences[0].Event != "loop_start" || len(end.Sentences) != 3 || end.After != all.After ||
		len(some.Sentences) != 2 || some.First != 2 || some.Sentences[1] != all.Sentences[2] {
		t.Errorf("%+v\n%+v\n%+v", all, end, some)
	}
	c.ask("GET", at+fmt.Sprintf("/said?after=%d", all.After), "", 200, &some)
	if len(some.Sentences) != 0 || some.After != all.After {
		t.Errorf("behind the end: %+v", some)
	}
	c.ask("GET", "/api/v1/loops/none/said", "", 404, nil)

	// The same events, chosen: the last ones, those before them, and those behind a number.
	var ends []api.Sentence
	for _, s := range all.Sentences {
		if s.Event == "role_end" {
			ends = append(ends, s)
		}
	}
	n := len(ends)
	for query, want := range map[string][]api.Sentence{"?event=role_end": ends, "?event=role_end&limit=1": ends[n-1:], fmt.Sprintf("?event=role_end&limit=1&before=%d", ends[n-1].Seq): ends[n-2 : n-1],
		fmt.Sprintf("?event=role_end&after=%d", ends[0].Seq): ends[1:], "?event=role_[ef]*&runner=sh": ends, "?event=role_end&runner=none": nil, "?event=role_end&model=none": nil} {
		some = api.Sentences{}
		if c.ask("GET", at+"/said"+query, "", 200, &some); !slices.Equal(some.Sentences, want) && len(some.Sentences)+len(want) > 0 {
			t.Errorf("%s: %+v\nwant %+v", query, some.Sentences, want)
		}
	}
	c.ask("GET", at+"/said?event=[", "", 422, nil)
	var cost, of api.Costs
	c.ask("GET", "/api/v1/cost?by=loop", "", 200, &cost)
	c.ask("GET", "/api/v1/cost?by=loop&role=reviewer", "", 200, &of)
	if of.Total.Runs == 0 || of.Total.Runs >= cost.Total.Runs {
		t.Errorf("%+v\n%+v", of, cost)
	}
	var log, rest api.LogItems
	c.ask("GET", at+"/logs/reviewer/1/items", "", 200, &log)
	c.ask("GET", at+fmt.Sprintf("/logs/reviewer/1/items?after=%d", log.After), "", 200, &rest)
	if len(log.Items) == 0 || log.File != "reviewer.log" || log.After != log.Size || len(rest.Items) != 0 || rest.After != log.After {
		t.Errorf("%s: %+v\n%+v", l.Loop, log, rest)
	}
	c.ask("GET", at+"/logs/nobody/1/items", "", 409, nil)

	var turn api.Turn
	last := c.row(l.ID).Iteration
	c.ask("GET", at+fmt.Sprintf("/prompts/reviewer/%d", last), "", 200, &turn)
	if turn.File != "reviewer.prompt.md" || !strings.Contains(turn.Prompt, "promise") || turn.Message == nil || !strings.Contains(*turn.Message, "<promise>DONE</promise>") ||
		turn.Report == nil || turn.Report.File != "review.md" || turn.Report.Status != "fresh" || turn.Report.Text == nil || *turn.Report.Text == "" {
		t.Errorf("%+v", turn)
	}
	// Another report in its place is not taken for that of this iteration.
	if err := os.WriteFile(c.n.path("repo/.superloop/loops/"+l.Loop+"/review.md"), []byte("another one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	turn = api.Turn{}
	if c.ask("GET", at+fmt.Sprintf("/prompts/reviewer/%d", last), "", 200, &turn); turn.Report == nil || turn.Report.Text != nil {
		t.Errorf("%+v", turn.Report)
	}
	c.ask("GET", at+fmt.Sprintf("/prompts/tests/%d", last), "", 409, nil)
	c.ask("GET", at+"/prompts/nobody/1", "", 409, nil)
}
