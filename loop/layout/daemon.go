package layout

import (
	"path/filepath"
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

// DaemonPorts returns the TCP ports that agents must not reach: DaemonPort, and the one that the file DaemonPortFile has.
// Without a file, and if it holds no port, it is DaemonPort alone.
func DaemonPorts(state string) []uint16 {
	ports := []uint16{DaemonPort}
	said, err := door.Read(DaemonPortFile(state), maxPortFile)
	if err != nil {
		return ports
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(said)), 10, 16)
	if err == nil && port != 0 && port != DaemonPort {
		ports = append(ports, uint16(port))
	}
	return ports
}
