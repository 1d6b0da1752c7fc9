package remedy

import (
	"os"
	"runtime"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// An option that empties a directory is offered only against a full file system that the directory lies on.
func TestFrees(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("file systems are told apart on Linux only")
	}
	dir := t.TempDir()
	for _, tc := range []struct {
		name  string
		found classify.Finding
		frees []string
		want  bool // it is refused
	}{
		{"on the full one", classify.Finding{Holds: classify.No, Value: "/"}, []string{"/nowhere"}, false},
		{"on another one", classify.Finding{Holds: classify.No, Value: "/proc"}, []string{dir, "~/.cache"}, true},
		{"one of them", classify.Finding{Holds: classify.No, Value: "/proc"}, []string{dir, "/proc/self"}, false},
		{"nobody looked", classify.Finding{}, []string{dir}, false},
		{"it empties nothing", classify.Finding{Holds: classify.No, Value: "/proc"}, nil, false},
	} {
		if _, err := os.Stat(tc.found.Value); tc.found.Value != "" && err != nil {
			t.Fatal(err)
		}
		r := &resolver{f: &classify.Failure{Findings: map[string]classify.Finding{classify.ProbeFreeSpace: tc.found}}}
		if why := r.refused(&catalog.Option{Frees: tc.frees}); (why != "") != tc.want {
			t.Errorf("%s: refused with %q", tc.name, why)
		}
	}
}
