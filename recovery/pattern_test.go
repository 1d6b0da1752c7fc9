package recovery

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Threat T3: what a pattern of require_human names, and what not.
// Conforms: 004-2-human
func TestPatternSemantics(t *testing.T) {
	t.Parallel()
	for pattern, cases := range map[string]map[string]match{
		"git push": {
			"git push": sure, "git push origin main": sure, "git  push\t-f": sure, "git pushx": no, "git pull": no, "gitpush": no, "git": no, "git commit -m push": no, "git commit push": no,
			"/usr/bin/git push": sure, "git -C a push": sure, "git --git-dir=x push": sure, "git --no-pager push": sure, "git --git-dir x -c a.b=c push": sure, "git $X": maybe, "git \"$X\"": maybe, "git $X push": maybe, "git -C \"$X\" status": no, "git -C $X status": maybe, "git status $X": no, "git p*": maybe, "git {push,pull}": maybe, "git ~": maybe,
			"echo git push": no, "echo 'git push'": no, "a=git push": no, "GIT push": no, "git 'push'": sure, "git pu\\sh": sure, "git push;": sure, "xgit push": no, "git -- push": sure,
		},
		"git reset --hard": {
			"git reset --hard": sure, "git reset --hard HEAD~1": sure, "git reset HEAD~1 --hard": sure, "git reset -q --hard": sure, "git reset --har": sure, "git reset --h": sure, "git reset --soft": no, "git reset": no, "git reset $X": maybe, "git reset -- --hard": no, "git reset --hard=x": sure, "git --hard reset": sure,
		},
		"rm -rf *": {
			"rm -rf": sure, "rm -rf /": sure, "rm -fr x": sure, "rm -r -f x": sure, "rm -f x -r": sure, "rm -Rf x": sure, "rm --recursive --force x": sure, "rm --rec --for x": sure, "rm -rfv x": sure, "rm -v -rf x y": sure, "rm -r x": no, "rm -f x": no, "rm x": no, "rmdir -rf x": no, "rm -r $X": maybe, "rm -- -rf": no, "rm *": maybe, "rm -r *.o": no, "rm -rfi": sure, "/bin/rm -rf x": sure, "rm -r -- $X": no,
		},
		"rm -rf /":       {"rm -rf /": sure, "rm -rf //": sure, "rm -rf /.": sure, "rm -rf --no-preserve-root /": sure, "rm -rf ./": no, "rm -rf /x": no, "rm -rf x /": no},
		"curl *":         {"curl": sure, "curl x": sure, "curl -fsSL x": sure, "curlx": no, "/usr/bin/curl x": sure, "xcurl x": no},
		"curl*":          {"curl": sure, "curlx y": sure, "/usr/bin/curl x": sure, "acurl": no},
		"npm * --force":  {"npm i --force": sure, "npm i x y --force": sure, "npm --force": no, "npm i --force x": no, "npm i $X": maybe},
		"g++ *":          {"g++ x.c": sure, "g x.c": no, "gg x": no},
		"[x] *":          {"'[x]' y": sure, "x y": no},
		"(rm *":          {"'(rm' x": sure, "rm x": no},
		"a.c":            {"abc": no, "a.c": sure},
		"*":              {"x": sure, "$X": sure},
		"* *":            {"x": sure},
		"*.superloop*":   {"cat x.superloop/y": sure, "cat y": no},
		"docker rm":      {"docker --context x rm y": sure, "docker run rm": no},
		"npm publish":    {"npm --registry=x publish": sure, "npm --registry x publish": sure, "npm run publish": no},
		"find * -delete": {"find . -delete": sure, "find . -name x -delete": sure, "find . -print": no},
		"find -delete":   {"find . -delete": sure, "find -delete": sure, "find . -name delete": no},
		"/bin/rm":        {"/bin/rm x": sure, "rm x": no, "/usr/bin/rm x": no},
		"x é *":          {"x é y": sure},
	} {
		p, ok := newPattern(pattern)
		if !ok {
			t.Fatalf("%q is no pattern", pattern)
		}
		for command, want := range cases {
			a := Analyse(command)
			got := no
			for i := range a.Parts {
				got = max(got, p.of(&a.Parts[i]))
			}
			if got != want {
				t.Errorf("%q on %q: %d, want %d (parts %q)", pattern, command, got, want, texts(a))
			}
		}
	}
	for _, blank := range []string{"", " ", "\t\n"} {
		if _, ok := newPattern(blank); ok {
			t.Errorf("%q is a pattern", blank)
		}
	}
}

// A glob is compared with a matcher that is slow and obvious.
func TestGlobProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*]{0,7}`).Draw(t, "pattern")
		text := rapid.StringMatching(`[ab*]{0,8}`).Draw(t, "text")
		if got, want := plainMatch(pattern, text), slowMatch(pattern, text); got != want {
			t.Fatalf("%q on %q: %v", pattern, text, got)
		}
		if couldMatch(pattern, text) != slowMatch(pattern, text) {
			t.Fatalf("could %q be %q?", text, pattern)
		}
		// A text with an unknown piece: whatever it turns out to be.
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		open := text[:at] + string(unknown) + text[at:]
		piece := rapid.StringMatching(`[ab]{0,4}`).Draw(t, "piece")
		if slowMatch(pattern, text[:at]+piece+text[at:]) && !couldMatch(pattern, open) {
			t.Fatalf("%q could match %q by %q", pattern, open, piece)
		}
		if plainMatch(pattern, open) && !slowMatch(pattern, text[:at]+piece+text[at:]) {
			t.Fatalf("%q surely matches %q, but not with %q", pattern, open, piece)
		}
	})
}

func slowMatch(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	if pattern[0] == '*' {
		return slowMatch(pattern[1:], text) || text != "" && slowMatch(pattern, text[1:])
	}
	return text != "" && text[0] == pattern[0] && slowMatch(pattern[1:], text[1:])
}

// Quote removal is bash's.
func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`a 'b c' "d e" f\ g`:              {"a", "b c", "d e", "f g"},
		`'a'"b"c\d`:                       {"abcd"},
		`"a\"b\$c\d\\e" 'x\y'`:            {`a"b$c\d\e`, `x\y`},
		"\"a\\\nb\" c\\\nd":               {"ab", "cd"},
		`$'a\tb\x41\101\u0042\'"\?'`:      {"a\tbAAB'\"?"},
		`"" ''`:                           {"", ""},
		`$x "$x" a$x"b" $(ls) "$@"`:       {"...", "...", "a...b", "...", "..."},
		`*.go a?b x{1..3} {a,b}c {a} a{b`: {"....go", "a...b", "x...", "...", "{a}", "a{b"},
		`~ ~/x ~bob/x a~ "~" \~`:          {"...", ".../x", ".../x", "a~", "~", "~"},
		"[ a ] a[b]c":                     {"[", "a", "]", "a..."},
		`echo a=b --x=~ #c`:               {"echo", "a=b", "--x=~"},
		"a\\\n  b":                        {"a", "b"},
	} {
		a := Analyse(text)
		var got []string
		if len(a.Parts) > 0 {
			got = a.Parts[0].Words
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
