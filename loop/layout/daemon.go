package layout

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/door"
)

// DaemonPort is the TCP port on which the daemon of a user listens if it was told no other.
const DaemonPort = 7717

// maxPortFile bounds the file, in bytes.
const maxPortFile = 1 << 10

// DaemonPortFile is where the daemon says on which TCP port it listens, or listened last, as a decimal number.
// state is the result of StateRoot.
func DaemonPortFile(state string) string { return filepath.Join(state, "daemon", "port") }

// GatewayState is the private state of the gateway of a fleet, and HostState that of what answers it on a machine. Each has a
// socket, and who has asked, where a daemon's state has them. With the directory above GatewayState as XDG_STATE_HOME the verbs
// of superloop that ask the daemon (confirm, token, passkey, ui) ask the gateway.
func GatewayState(state string) string { return filepath.Join(state, "fleet", "gateway", "superloop") }
func HostState(state string) string    { return filepath.Join(state, "fleet", "host") }

// DaemonPorts returns the TCP ports that agents must not reach: DaemonPort, and those that the files DaemonPortFile of the daemon and
// of a gateway have. Without a file, and if it holds no port, there is none of it.
func DaemonPorts(state string) []uint16 {
	ports := []uint16{DaemonPort}
	for _, of := range []string{state, GatewayState(state)} {
		said, err := door.Read(DaemonPortFile(of), maxPortFile)
		if err != nil {
			continue
		}
		port, err := strconv.ParseUint(strings.TrimSpace(string(said)), 10, 16)
		if err == nil && port != 0 && !slices.Contains(ports, uint16(port)) {
			ports = append(ports, uint16(port))
		}
	}
	return ports
}
