//go:build unix && !linux

package cage

const tricksterArg = "trickster"

func (a *agentJob) mount() error { return nil }

func trickster([]string) int { return 1 }
