package steering

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/places"
)

var update = flag.Bool("update", false, "write the table of docs/protection.md anew")

// Each entry has a name, a reason and places; no place is named twice; each word
// can be expanded, and each pattern is well-formed.
func TestPlacesAreWellFormed(t *testing.T) {
	t.Parallel()
	entries := places.Entries()
	if len(entries) < 40 {
		t.Fatal(len(entries))
	}
	seen := map[string]bool{pathID: true, extraID: true}
	for _, e := range entries {
		if seen[e.ID] || strings.Trim(e.ID, "abcdefghijklmnopqrstuvwxyz-") != "" {
			t.Errorf("%q is no name, or there twice", e.ID)
		}
		seen[e.ID] = true
		if len(e.Why) < 20 || len(e.Holds)+len(e.Hides)+len(e.Keeps) == 0 {
			t.Errorf("%s has no reason, or no places", e.ID)
		}
		for _, in := range e.Inputs {
			for _, file := range in.Files {
				if seen["inputs"+file] {
					t.Errorf("%s: %s is there twice", e.ID, file)
				}
				seen["inputs"+file] = true
			}
		}
		for kind, words := range map[string][]string{"holds": e.Holds, "keeps": e.Keeps, "hides": e.Hides} {
			for _, word := range words {
				if seen[kind+word] {
					t.Errorf("%s: %s is there twice", e.ID, word)
				}
				seen[kind+word] = true
				name, _, _ := strings.Cut(strings.TrimPrefix(word, "$"), "/")
				got := expand(word, "/home/u", []string{name + "=/value"})
				if len(got) != 1 || got[0] != filepath.Clean(got[0]) || strings.Contains(got[0], "$") {
					t.Errorf("%s: %s gives %q", e.ID, word, got)
					continue
				}
				if _, err := filepath.Match(got[0], ""); err != nil || kind != "hides" && strings.ContainsAny(word, "*?[") {
					t.Errorf("%s: %s is no pattern, or one where none may be", e.ID, word)
				}
			}
		}
	}
}

// The places that the issue of this package names, one of each ecosystem.
func TestKnownPlaces(t *testing.T) {
	t.Parallel()
	var holds []string
	for _, e := range places.Entries() {
		holds = append(holds, e.Holds...)
	}
	for _, want := range strings.Fields(`.bashrc .bash_profile .profile .zshrc .zshenv .config/fish .npmrc .config/pip .pip .pypirc .cargo/config.toml .config/go .gradle/init.d
		.m2/settings.xml .gitconfig .config/git .yarnrc .yarnrc.yml .bunfig.toml .gemrc .bundle/config .config/composer .nuget/NuGet .docker/config.json .kube/config
		.aws/config .config/gh go/bin .cargo/bin .npm-global .local/share/pnpm .bun/bin .deno .volta .nvm .asdf .local/share/mise .ssh .config/systemd .config/autostart
		.vimrc .config/Code/User .vscode/extensions .config/superloop .local/lib .pyenv .rustup/toolchains .config/environment.d`) {
		if !slices.Contains(holds, "~/"+want) {
			t.Errorf("~/%s is not held", want)
		}
	}
	if !slices.Contains(holds, "/var/spool/cron") {
		t.Error("cron is not held")
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	env := []string{"A=/a:/b:c", "TMUX=/tmp/tmux-1/default,12,0", "DOCKER_HOST=unix:///run/d.sock", "TCP=tcp://h:1", "K=unix:@abstract", "REL=x", "E="}
	for word, want := range map[string][]string{
		"~": {"/h"}, "~/": {"/h"}, "~/.x": {"/h/.x"}, "~x": nil, "/a/": {"/a"}, "x": nil, "$A": {"/a", "/b"}, "$A/bin": {"/a/bin", "/b/bin"}, "$TMUX": {"/tmp/tmux-1/default"},
		"$DOCKER_HOST": {"/run/d.sock"}, "$TCP": nil, "$K": nil, "$REL/x": nil, "$E": nil, "$MISSING/x": nil, "/tmp/x-$UID": {fmt.Sprint("/tmp/x-", os.Getuid())},
	} {
		if got := expand(word, "/h", env); !slices.Equal(got, want) {
			t.Errorf("%s gives %q, want %q", word, got, want)
		}
	}
}

// docs/protection.md has the list, as a table.
func TestTableOfTheDocs(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../docs/protection.md", "<!-- begin of the table -->\n", "<!-- end of the table -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the marks of the table are missing")
	}
	var b strings.Builder
	b.WriteString("| group | held | hidden | writable all the same | inputs of listed commands | because |\n|---|---|---|---|---|---|\n")
	code := func(words []string) string {
		if len(words) == 0 {
			return "-"
		}
		return "`" + strings.Join(words, "` `") + "`"
	}
	for _, e := range places.Entries() {
		var inputs []string
		for _, in := range e.Inputs {
			inputs = append(inputs, strings.Join(in.Programs, " ")+": `~/"+strings.Join(in.Files, "` `~/")+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", e.ID, code(e.Holds), code(e.Hides), code(e.Keeps), cmp.Or(strings.Join(inputs, "; "), "-"), e.Why)
	}
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Error("the table is another one; type: go test ./recovery/steering -run TestTableOfTheDocs -update")
	}
}
