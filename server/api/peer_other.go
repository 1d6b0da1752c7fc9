//go:build !linux

package api

import (
	"net"
	"os"
)

// peerOfConn relies on the mode of the socket's directory: only the user, and root, can have opened the connection.
func peerOfConn(net.Conn) (peer, error) { return peer{UID: os.Getuid()}, nil }
