package layout

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestDaemonPorts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]uint16{
		"": {DaemonPort}, "8080\n": {DaemonPort, 8080}, "7717\n": {DaemonPort}, "127.0.0.1:8080\n": {DaemonPort},
		" 65535": {DaemonPort, 65535}, "0\n": {DaemonPort}, "65536\n-1\nnone\n:\n": {DaemonPort}, "\x00\xff": {DaemonPort},
		strings.Repeat("1\n", 1000): {DaemonPort},
	} {
		state := t.TempDir()
		if err := os.MkdirAll(filepath.Dir(DaemonPortFile(state)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(DaemonPortFile(state), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := DaemonPorts(state); !slices.Equal(got, want) {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	state := t.TempDir()
	if got := DaemonPorts(state); !slices.Equal(got, []uint16{DaemonPort}) {
		t.Errorf("without a file: %d", got)
	}
	// At L0 an agent can put anything there.
	if err := os.MkdirAll(filepath.Dir(DaemonPortFile(state)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(DaemonPortFile(state), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := DaemonPorts(state); !slices.Equal(got, []uint16{DaemonPort}) {
		t.Errorf("a FIFO: %d", got)
	}
}
