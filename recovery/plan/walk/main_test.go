package walk

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// childEnv makes the test binary a walker that is to be killed: its value is
// "dir\nstep".
const childEnv = "CHAIN_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		if err := victim(strings.Split(part, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
