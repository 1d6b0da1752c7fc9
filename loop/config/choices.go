package config

import (
	"encoding/json"
	"fmt"

	"github.com/superloop/superloop/schemas"
)

// fileChoice is an item of a role's runners: a runner's name, or an object.
type fileChoice struct {
	Runner string
	Model  string
	Tier   int
}

func (c *fileChoice) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &c.Runner) == nil {
		return nil
	}
	var o struct {
		Runner string `json:"runner"`
		Model  string `json:"model"`
		Tier   int    `json:"tier"`
	}
	_ = json.Unmarshal(b, &o) // the schema has named what does not fit
	*c = fileChoice(o)
	return nil
}

// choices checks the runners of a role's settings at a pointer: that there are
// such, each with its model once, and that nothing else says who does the role.
func (b *builder) choices(at string, in fileRole) {
	if len(in.Runners) == 0 {
		return
	}
	for key, value := range map[string]string{"runner": in.Runner, "model": in.Model} {
		if value == "" && !b.present(at+"/"+key) {
			continue
		}
		b.wrong(at+"/"+key, Problem{Code: schemas.CodeCombination, Found: quoted(key), Allowed: "runners, without runner and model",
			Message: fmt.Sprintf(`%s stands beside runners, which says the same; take it away, and write who comes first as the first of runners, such as {"runner": %s, "model": "..."}`,
				quoted(key), quoted(first(in.Runner, in.Runners[0].Runner)))})
	}
	seen := map[[2]string]int{}
	for i, c := range in.Runners {
		ptr := at + pointer("runners", i)
		if c.Runner == "" {
			continue // the schema has named it
		}
		place := ptr
		if b.present(ptr + "/runner") {
			place += "/runner"
		}
		if !b.reference(place, c.Runner) {
			continue
		}
		key := [2]string{c.Runner, c.Model}
		if j, dup := seen[key]; dup {
			what := quoted(c.Runner) + " with its own model"
			if c.Model != "" {
				what = fmt.Sprintf("%s with the model %s", quoted(c.Runner), quoted(c.Model))
			}
			b.wrong(ptr, Problem{Code: CodeDuplicate, Found: what, Allowed: "each runner and model once",
				Message: fmt.Sprintf("%s is runners[%d] already; take one of the two away, or give it another model", what, j)})
			continue
		}
		seen[key] = i
	}
}

// whoMay are those who may do a role as its own settings, at a pointer, and the
// defaults say; none when they name no runner. Own settings win: an own runner
// over a default list too.
func (b *builder) whoMay(at, role string, own, def fileRole) []Choice {
	switch {
	case len(own.Runners) > 0:
		return own.list()
	case own.Runner != "":
		return []Choice{{Runner: own.Runner, Model: first(own.Model, def.Model)}}
	case len(def.Runners) > 0:
		if own.Model != "" {
			b.wrong(at+"/model", Problem{Code: schemas.CodeCombination, Found: quoted("model"), Allowed: "runners, or runner and model",
				Message: fmt.Sprintf(`role_defaults.%s has several runners, and each says its own model; write runners here too, or runner beside model`, role)})
		}
		return def.list()
	case def.Runner != "":
		return []Choice{{Runner: def.Runner, Model: first(own.Model, def.Model)}}
	}
	return nil
}

func (r fileRole) list() []Choice {
	out := make([]Choice, 0, len(r.Runners))
	for _, c := range r.Runners {
		out = append(out, Choice{Runner: c.Runner, Model: c.Model, Tier: c.Tier})
	}
	return out
}

// onlyRunner is who does a role when nobody is named; "" when there are several.
func (b *builder) onlyRunner(f file) string {
	switch {
	case f.Runner != nil:
		return legacyRunner
	case len(b.runners) == 1:
		return b.runnerNames()[0]
	}
	return ""
}
