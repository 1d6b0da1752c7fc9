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

// maxPortFile bounds the file, in bytes. An address has at most 50.
const maxPortFile = 1 << 10

// DaemonPortFile is where the daemon says on which TCP port it listens: a port, or an address with a port, on each line.
// state is the result of StateRoot.
func DaemonPortFile(state string) string { return filepath.Join(state, "daemon", "port") }

// DaemonPorts returns the TCP ports that agents must not reach: DaemonPort, and those that the file DaemonPortFile has.
// Without a file, and for a line that is no port, it is DaemonPort alone.
func DaemonPorts(state string) []uint16 {
	ports := []uint16{DaemonPort}
	said, err := door.Read(DaemonPortFile(state), maxPortFile)
	if err != nil {
		return ports
	}
	for word := range strings.FieldsSeq(string(said)) {
		port, err := strconv.ParseUint(word[strings.LastIndexByte(word, ':')+1:], 10, 16)
		if err == nil && port != 0 && !slices.Contains(ports, uint16(port)) {
			ports = append(ports, uint16(port))
		}
	}
	return ports
}
