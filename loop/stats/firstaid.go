package stats

import (
	"encoding/json"
	"time"

	"github.com/superloop/superloop/loop/journal"
)

// Remediation is what rules found out and cured before a role was started for it.
type Remediation struct {
	// Classified counts the failures that rules have looked at: Infra and Code as
	// they judged, and Unknown of which they know nothing.
	Classified int `json:"classified"`
	Infra      int `json:"infra"`
	Code       int `json:"code"`
	Unknown    int `json:"unknown"`
	// Chains are the failures that something was tried for, Cured those of them
	// after which the tests passed, Commands what was run for all.
	Chains   int `json:"chains"`
	Remedied int `json:"cured"`
	Commands int `json:"commands"`
	// Took is the time from the first classification to the passing tests.
	Took Spread `json:"took"`
	// SavedIterations is Cured: without it a role at least would have had to find
	// out, propose, and the loop to come round again. SavedTokens is that many of
	// the run's own average iterations; nil where no runner tells its tokens.
	SavedIterations int      `json:"saved_iterations"`
	SavedTokens     *int64   `json:"saved_tokens_estimated"`
	RemediedRate    *float64 `json:"cured_rate"`
	// VerifyRepaired counts installed tools that work and whose check had to be
	// repaired to show it, VerifyFailed those that nothing shows to work.
	// VerifySavedMS is what an agent would have needed at least to find out the
	// first.
	VerifyRepaired int   `json:"verify_repaired"`
	VerifyFailed   int   `json:"verify_failed"`
	VerifySavedMS  int64 `json:"verify_saved_ms"`
}

// remediation is a Remediation while it grows.
type remediation struct {
	classified, infra, code, unknown, chains, remedied, commands int
	repaired, failed                                             int
	savedMS                                                      int64
	took                                                         []int64
	opened                                                       map[string]time.Time
}

type remediationFields struct {
	ChainID  string `json:"chain_id"`
	Infra    bool   `json:"infra"`
	Code     bool   `json:"code"`
	Status   string `json:"status"`
	Attempts int    `json:"attempts"`
	SavedMS  int64  `json:"time_saved_ms"`
}

func (a *remediation) add(ev journal.Event) {
	var f remediationFields
	_ = json.Unmarshal(ev.Fields, &f) // what is of another type than ours is not told
	switch ev.Event {
	case "failure_classified":
		a.classified++
		switch {
		case f.Code:
			a.code++
		case f.Infra:
			a.infra++
		default:
			a.unknown++
		}
	case "chain_opened":
		a.chains++
		if a.opened == nil {
			a.opened = map[string]time.Time{}
		}
		a.opened[f.ChainID] = ev.Timestamp
	case "verify_self_repaired":
		a.repaired++
		a.savedMS = plus(a.savedMS, max(0, f.SavedMS))
	case "verify_self_repair_failed":
		a.failed++
	case "chain_closed":
		a.commands += max(0, f.Attempts)
		since, ok := a.opened[f.ChainID]
		delete(a.opened, f.ChainID)
		if f.Status == "done" {
			a.remedied++
			if ok {
				a.took = append(a.took, ev.Timestamp.Sub(since).Milliseconds())
			}
		}
	}
}

func (a *remediation) merge(o *remediation) {
	a.classified, a.infra, a.code, a.unknown = a.classified+o.classified, a.infra+o.infra, a.code+o.code, a.unknown+o.unknown
	a.chains, a.remedied, a.commands = a.chains+o.chains, a.remedied+o.remedied, a.commands+o.commands
	a.repaired, a.failed, a.savedMS = a.repaired+o.repaired, a.failed+o.failed, plus(a.savedMS, o.savedMS)
	a.took = append(a.took, o.took...)
}

func (a *remediation) report() Remediation {
	return Remediation{Classified: a.classified, Infra: a.infra, Code: a.code, Unknown: a.unknown, Chains: a.chains, Remedied: a.remedied, Commands: a.commands,
		Took: spread(a.took), SavedIterations: a.remedied, RemediedRate: per(float64(a.remedied), float64(a.chains)),
		VerifyRepaired: a.repaired, VerifyFailed: a.failed, VerifySavedMS: a.savedMS}
}

// saved fills in what the run's own iterations took on average.
func (a *Remediation) saved(total figures, iterations int) {
	if a.Remedied == 0 || total.total.told == 0 || iterations == 0 {
		return
	}
	tokens := total.total.n / int64(iterations) * int64(a.Remedied)
	a.SavedTokens = &tokens
}
