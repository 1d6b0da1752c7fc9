package action

import (
	"testing"
	"time"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	same := Digest("npm ci", ".")
	for _, dir := range []string{"./", "", "a/..", "././."} {
		if Digest("npm ci", dir) != same {
			t.Errorf("%q is another place than .", dir)
		}
	}
	for _, c := range [][2]string{{"npm ci ", "."}, {"npm ci", "a"}, {"npm ci\x00", ""}, {"npm", "ci"}} {
		if Digest(c[0], c[1]) == same {
			t.Errorf("%q has the same digest", c)
		}
	}
}

// The digest is in journals, approvals and what was learned: it must never change.
func TestDigestIsWhatItWas(t *testing.T) {
	t.Parallel()
	const want = "c8947c54a5b4d9874919b96118d61530c48c86a6d83490840b5be7744760a1e0"
	a := Draft{Command: "npm ci", WorkingDir: "./web", TimeoutMS: 1500, Expected: "it installs", Confidence: "high"}.Action()
	if a.Digest != want || Digest("npm ci", "web/") != want {
		t.Error(a.Digest)
	}
	if a != (Action{Command: "npm ci", WorkingDir: "./web", TimeoutMS: 1500, Expected: "it installs", Confidence: "high", Digest: want}) || a.Timeout() != 1500*time.Millisecond {
		t.Errorf("%+v", a)
	}
	if b := a.With("ls").With("npm ci"); b != a || a.With("ls").Digest != Digest("ls", "web") {
		t.Errorf("%+v", b)
	}
}
