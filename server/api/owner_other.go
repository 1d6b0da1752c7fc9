//go:build !linux

package api

import "net/netip"

// client cannot be answered here: the system does not say which process holds a connection.
func client(string, netip.AddrPort, netip.AddrPort) (pids []int, uid int, err error) {
	return nil, -1, errCannotTell
}

func listener(netip.AddrPort) string { return "" }

func exeOf(int) string { return "" }
