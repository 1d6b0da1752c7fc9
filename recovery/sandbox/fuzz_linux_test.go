package sandbox

import (
	"bytes"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzMounts: whatever the mounts of a system are called, a path has no alias that no mount makes.
func FuzzMounts(f *testing.F) {
	testkit.Seed(f, []byte("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 8:1 /home /mnt/a\\040b rw - ext4 /dev/sda1 rw\n24 22 0:5 / /proc rw - proc proc rw\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var table mountTable
		testkit.Memory(t, len(data), func() { table = parseMounts(string(data)) })
		if len(table) > bytes.Count(data, []byte("\n"))+1 {
			t.Fatalf("%d mounts", len(table))
		}
		whole, parts := table.aliases("/home/user")
		if len(whole)+len(parts) > len(table) {
			t.Fatalf("%q and %q of %d mounts", whole, parts, len(table))
		}
	})
}
