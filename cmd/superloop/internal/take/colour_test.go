package take

import (
	"strings"
	"testing"
)

func TestColouredShowsNoControlCharacter(t *testing.T) {
	t.Parallel()
	patch := "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n same\n--- no head\n+evil\x1b]0;title\x07\x1b[2J\u202e\n"
	want := "\x1b[1mdiff --git a/f b/f\x1b[m\n\x1b[1m--- a/f\x1b[m\n\x1b[1m+++ b/f\x1b[m\n\x1b[36m@@ -1,2 +1,2 @@\x1b[m\n same\n\x1b[31m--- no head\x1b[m\n\x1b[32m+evil"
	got := string(Coloured([]byte(patch)))
	if !strings.HasPrefix(got, want) || strings.Count(got, "\x1b") != 12 || strings.ContainsAny(got, "\a\u202e") {
		t.Errorf("%q", got)
	}
}
