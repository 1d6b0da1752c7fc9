package classify_test

import (
	"os"
	"testing"

	"github.com/superloop/superloop/internal/proc"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == proc.SpawnerArg {
		os.Exit(proc.SpawnerMain())
	}
	os.Exit(m.Run())
}
