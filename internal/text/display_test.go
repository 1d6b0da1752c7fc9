package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Threat T4: what an operator is shown of a command that wants to be misread.
func TestDisplay(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"bun install": "bun install",
		"a  b   c":    "a  b   c",
		"ls" + strings.Repeat(" ", 5000) + "; rm": "ls<5000 blanks>; rm",
		"ls\n\nrm\t-f":                         "ls<newline><newline>rm<tab>-f",
		"ls" + strings.Repeat("\n", 40) + "rm": "ls<40 newlines>rm",
		"git \u202epush\u200b":                 "git <U+202E>push<U+200B>",
		"g\u0456t push":                        "g<U+0456>t push",
		"\x1b]0;x\a":                           "<U+001B>]0;x<U+0007>",
		"a\xffb":                               "a<0xFF>b",
		"cat <tab> <4 blanks> <x":              "cat <U+003C>tab> <U+003C>4 blanks> <x",
		"é":                                    "<U+00E9>",
	} {
		if got := Display(s); got != want {
			t.Errorf("%.30q: %q, want %q", s, got, want)
		}
	}
}

// Display shows everything: what it writes leads back to the one text.
func TestDisplayIsFaithful(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ \n\t<>a0-9]{0,12}`), rapid.StringMatching(`(<|newline>|tab>|U\+|0x|4 blanks>|12 newlines>| |\n|é){0,8}`)).Draw(t, "text")
		shown := Display(s)
		for i := range len(shown) {
			if shown[i] < ' ' || shown[i] > '~' {
				t.Fatalf("%q is shown as %q", s, shown)
			}
		}
		if strings.Contains(shown, "    ") {
			t.Fatalf("a run of blanks is left: %q", shown)
		}
		if other, ok := seen[shown]; ok && other != s {
			t.Fatalf("%q and %q are both shown as %q", s, other, shown)
		}
		seen[shown] = s
	})
}

// Text that needs no decision keeps all that a reader sees, in every script, and shows the rest by its code point.
func TestShown(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"Not logged in · Please run /login":   "Not logged in · Please run /login",
		"é  日本語 العربية ✓ “quoted” — 1 000":   "é  日本語 العربية ✓ “quoted” — 1 000",
		"two\nlines\tand <tab>":               "two lines<tab>and <tab>",
		"\x1b[2J\u202egnp\u200b\u00ad\ufe0f":  "<U+001B>[2J<U+202E>gnp<U+200B><U+00AD><U+FE0F>",
		"a\u00a0b\u2800c\u3000":               "a<U+00A0>b<U+2800>c<U+3000>",
		"e\u0301\u0301\u0301\u0301\u0301\xff": "e\u0301\u0301\u0301\u0301<U+0301><0xFF>",
		"\ue000\U000e0041":                    "<U+E000><U+E0041>",
	} {
		if got := Shown(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	for s, want := range map[string]int{"abc": 3, "日本": 4, "e\u0301": 1, "·": 1, "": 0} {
		if got := Columns(s); got != want {
			t.Errorf("%q takes %d columns, want %d", s, got, want)
		}
	}
}
