package api

import (
	"context"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
)

// Added is what superloop add --json prints, as far as it is read here.
type Added struct {
	Loop string `json:"loop"`
}

// add adds a loop for a spec to the configuration of a repository, and returns its id. The new loop has the rights of the
// first one: the verb trusts nothing else of a file that has changed.
func (a *api) add(ctx context.Context, by escalation.By, repo, id, spec string) (string, error) {
	args := []string{"add", "--repo=" + repo, "--spec=-", "--json"}
	if id != "" {
		args = append(args, "--loop="+id)
	}
	out, err := say[Added](ctx, a, VerbCall{By: by, Stdin: []byte(spec), Args: args})
	if err != nil {
		return "", err
	}
	var is Added
	return is.Loop, text.Decode(out.Body, &is)
}
