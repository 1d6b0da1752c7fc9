package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// Conforms: 003-c4-evidence-system
func TestSnapshot(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"package-lock.json": "1", ".npmrc": "a", "own.conf": "x", "gone.lock": "y"})
	before := Collect(dir, map[string]string{"node": "20", "npm": "9"}, []string{"own.conf", "gone.lock", "../outside", "/etc/hostname"}, noon)
	if len(before.Files) != 4 || before.FreeMB < 0 {
		t.Fatalf("%+v", before)
	}
	if ch := failures.Compare(before, before); len(ch) != 0 {
		t.Errorf("%+v", ch)
	}
	put(t, dir, "package-lock.json", "2")
	put(t, dir, "own.conf", "z")
	put(t, dir, "go.sum", "new")
	after := Collect(dir, map[string]string{"node": "24", "go": "1.26"}, []string{"own.conf"}, noon.Add(time.Hour))
	after.FreeMB, after.UptimeMS, before.UptimeMS = 5, 10_000, 5_000
	var got []string
	for _, ch := range failures.Compare(before, after) {
		got = append(got, ch.What+" "+ch.Name)
		if ch.String() == "" || strings.Contains(ch.String(), "  ") {
			t.Errorf("%q", ch.String())
		}
	}
	want := "tool go,tool node,tool npm,lockfile go.sum,lockfile gone.lock,config own.conf,lockfile package-lock.json,disk free space,clock "
	if s := strings.Join(got, ","); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
	if ch := failures.Compare(failures.Snapshot{}, after); len(ch) != 1 || ch[0].What != failures.ChangeDisk {
		t.Errorf("without an earlier one: %+v", ch)
	}
	if ex := LookFor(dir, []failures.Quote{{File: ".npmrc"}, {File: "nope"}, {}}); len(ex) != 2 || !ex[".npmrc"] || ex["nope"] {
		t.Errorf("%v", ex)
	}
}
