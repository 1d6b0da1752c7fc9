// Package checkup looks at everything a night depends on, before the night: each
// check is one function that looks and changes nothing.
package checkup

import (
	"context"
	"os"

	"github.com/superloop/superloop/loop/config"
)

// Status is a check's verdict. Warn is for what may be meant; Fail will end a
// loop, or keep it from starting.
type Status string

// The verdicts.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Result is what a check found and, when something is to be done, the command
// that does it.
type Result struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Patient is what is looked at.
type Patient struct {
	Repo      string
	StateHome string // XDG_STATE_HOME, "" for its default
	LookPath  func(string) (string, error)
	// config is set by the first check when it could be loaded.
	config *config.Config
}

// Check looks at one thing and may find several.
type Check func(ctx context.Context, p *Patient) []Result

// Checks are all checks, in the order in which a person mends what they find.
func Checks() []Check {
	return []Check{checkGit, checkConfig, checkPermissions, checkRunners, checkShell, checkWorkTree, checkPrivateState,
		checkJournals, checkContainment, checkInotify, checkDisk, checkClock, checkEnforcement}
}

// Run runs every check and tells each result as it comes.
func Run(ctx context.Context, p *Patient, tell func(Result)) {
	for _, check := range Checks() {
		if ctx.Err() != nil {
			return
		}
		for _, r := range check(ctx, p) {
			tell(r)
		}
	}
}

func one(name string, status Status, detail, fix string) []Result {
	return []Result{{name, status, detail, fix}}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
