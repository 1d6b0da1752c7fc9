//go:build unix && !linux

package sandbox

import "syscall"

const tricksterArg = "trickster"

func (a *agentJob) mount() error { return nil }

func trickster([]string) int { return 1 }

func ownMounts() *syscall.SysProcAttr { return nil }
