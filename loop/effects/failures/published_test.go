package failures

import (
	"reflect"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
)

// TestAToolIsAskedInOneEnvironment: --help and -h are asked as the check itself was, with the same directory,
// environment and bounds.
// Conforms: 001-d2.2-same
func TestAToolIsAskedInOneEnvironment(t *testing.T) {
	t.Parallel()
	w := toolWorld(t, map[string]proc.Result{"mytool --version": prints(3, "", ""), "mytool --help": prints(4, "", ""), "mytool -h": prints(5, "", "")})
	if _, err := w.Perform(t.Context(), checkMytool, w.s); err != nil || len(w.ran) != 3 {
		t.Fatalf("%v: %+v", err, w.ran)
	}
	first := w.ran[0]
	for _, spec := range w.ran[1:] {
		argv := strings.Join(spec.Argv, " ")
		if spec.Argv = first.Argv; !reflect.DeepEqual(spec, first) {
			t.Errorf("%s is asked in %+v, --version in %+v", argv, spec, first)
		}
	}
}
