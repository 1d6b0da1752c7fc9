package host

import (
	"context"
	"errors"
)

// Claim makes this machine the one that has a loop which is bound to none.
type Claim struct {
	Workflow string   `json:"workflow"` // what the loop is called in the fleet
	Remote   string   `json:"remote"`   // the repository by which it goes from machine to machine
	Loop     string   `json:"loop"`
	Grant    string   `json:"grant"`  // names the start that an operator has signed; the state on the remote must have the same
	Digest   string   `json:"digest"` // of the configuration with which the loop was started; no other one is run
	By       string   `json:"by"`     // the operator who has started it
	Machine  string   `json:"machine"`
	Keys     [][]byte `json:"keys"`  // each may have authenticated a state; the first one authenticates
	Since    int64    `json:"since"` // the journal has at least so many events
}

// Claim makes this machine the one that has a loop, and returns where the loop is. What this machine still does for the
// loop has to end first.
func (c *Client) Claim(ctx context.Context, q Claim) (Place, error) {
	a, err := c.ask(ctx, Request{Claim: &q})
	if err == nil && a.Claimed == nil {
		err = errors.New("the machine has answered a claim with something else")
	}
	if err != nil {
		return Place{}, err
	}
	return *a.Claimed, nil
}
