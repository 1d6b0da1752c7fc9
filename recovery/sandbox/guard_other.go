//go:build unix && !linux

package sandbox

import "github.com/superloop/superloop/internal/proc"

func protectionNamespaces() (ns proc.Namespaces, user, ok bool) {
	return proc.Namespaces{}, false, false
}

func protectionHint() string { return "" }

// become is never asked for here: Protect does not offer it.
func (a *agentOrder) become() int { return 1 }
