//go:build !linux

package classify

// Elsewhere these looks are not possible without running a program.

func writable(string) Finding        { return Finding{} }
func freeSpace(string) Finding       { return Finding{} }
func lockHolder(_, _ string) Finding { return Finding{} }
func service(string) Finding         { return Finding{} }
func portOwner(string) Finding       { return Finding{} }
func oomKilled() Finding             { return Finding{} }
