package loop

import (
	"encoding/json"

	"github.com/superloop/superloop/recovery/chain"
)

// Classified: rules have looked at what failed, before a token was spent on it.
type Classified struct {
	ID     string `json:"id,omitempty"` // of the effect; "" of a failure that nothing waits for
	Source string `json:"source"`       // test_command, recovery_command, role_process
	Role   string `json:"role,omitempty"`

	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`

	Category   string  `json:"category"`
	Handler    string  `json:"handler"` // "" if nothing is known of it
	Layer      string  `json:"layer"`
	Infra      bool    `json:"infra"`
	Code       bool    `json:"code"`
	Weak       bool    `json:"weak,omitempty"`
	Confidence float64 `json:"confidence"`
	Signature  string  `json:"signature"`
	Why        string  `json:"why"`
	// Evidence are lines of the output, as path:line: text where they name one.
	Evidence   []string `json:"evidence"`
	DurationUS int64    `json:"duration_us"`

	// Goal is the failed command's key, Options what may cure it, the best first,
	// and Hints what an agent can do about it.
	Goal    string         `json:"goal,omitempty"`
	Options []chain.Choice `json:"options,omitempty"`
	Hints   []string       `json:"hints,omitempty"`
	// Gate is what would happen: auto, retry, propose, human, none.
	Gate string `json:"gate,omitempty"`
}

// Event is the event's name.
func (Classified) Event() string { return "failure_classified" }

func decodeAid(event string, fields json.RawMessage) (Fact, error) {
	if event != "failure_classified" {
		return nil, nil
	}
	in, err := decode[Classified](event, fields)
	if err != nil || in.ID == "" {
		return nil, err // nothing waited for it
	}
	return in, nil
}
