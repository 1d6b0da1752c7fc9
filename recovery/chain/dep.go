package chain

import (
	"strings"

	"github.com/superloop/superloop/recovery/remedy"
)

// depOf is the recipe that an option installs or renews, "" for any other option.
func depOf(o remedy.Option) string {
	switch o.Strategy {
	case "install_dep", "install_dep_then_switch", "switch_method", "upgrade_dep":
		if id, ok := strings.CutPrefix(o.GoalKey, "tool/"); ok {
			return id
		}
	}
	return ""
}
