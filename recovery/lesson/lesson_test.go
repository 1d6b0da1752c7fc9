package lesson

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

func TestGeneralise(t *testing.T) {
	t.Parallel()
	for text, tt := range map[string]struct{ cure, expr, commands string }{
		"mytool: the index is stale":                            {"./refresh", `^mytool: the index is stale$`, "./refresh"},
		"  mytool: the  index is stale":                         {"./refresh", `^\s*mytool: the\s+index is stale$`, "./refresh"},
		"builder: host 0.21.5 does not match v0.27.2-rc.1!":     {"x", `^builder: host v?\d[\w.+-]* does not match v?\d[\w.+-]*!$`, "x"},
		"cannot reach db.example.com:5432 (10.0.0.7), refusing": {"x", `^cannot reach [\w.:-]+ \([\w.:-]+\), refusing$`, "x"},
		"cannot open /home/user/a/b.idx: stale lockfile":        {"x", `^cannot open \S+: stale lockfile$`, "x"},
		"fetch https://a.example/x?y=1 failed for mirror":       {"x", `^fetch https://\S* failed for mirror$`, "x"},
		"object deadbeef01 of 12 is corrupted in storage":       {"x", `^object [0-9a-fA-Fx-]+ of \d+ is corrupted in storage$`, "x"},
		"2026-11-24T12:00:01Z worker12 lost its database":       {"x", `^\d[\dTZ:.,+-]* worker12 lost its database$`, "x"},
		"storage: E404 for utf8 on x86_64, py310 missing":       {"x", `^storage: E404 for utf8 on x86_64, py310 missing$`, "x"},
		"can't load the plugin 'my-plugin' of mytool":           {"make my-plugin", `^can't load the plugin '(?P<name>[\w@][\w@./+-]*)' of mytool$`, "make {name}"},
		"can't load the plugin 'plain' of mytool":               {"make all", `^can't load the plugin 'plain' of mytool$`, "make all"},
		"mytool: port 7321 is taken by a leftover":              {"./free --port=7321 7321/tcp", `^mytool: port (?P<number>\d+) is taken by a leftover$`, "./free --port={number} {number}/tcp"},
		"tool protoc-gen-go is missing, and so is lib-b":        {"make bin/protoc-gen-go lib-b", `^tool (?P<name>[\w@][\w@./+-]*) is missing, and so is (?P<name2>[\w@][\w@./+-]*)$`, "make bin/{name} {name2}"},
		"the login of <secret> at mytool has expired":           {"x", `^the login of \S+ at mytool has expired$`, "x"},
		// Too little is left, or it says nothing.
		"Error: failed": {"x", "", ""}, "Command failed with exit code 1": {"x", "", ""}, "/a/b: /c/d: 12": {"x", "", ""}, "short: x1 y": {"x", "", ""},
	} {
		cure, err := argvs(tt.cure, redact.Values(nil))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := generalise(line{text: text}, cure, false)
		if ok != (tt.expr != "") {
			t.Errorf("%q: %v, %s", text, ok, got.expr)
		}
		if !ok {
			continue
		}
		var commands []string
		for _, s := range got.commands {
			commands = append(commands, strings.Join(s.argv, " "))
		}
		if got.expr != tt.expr || strings.Join(commands, " && ") != tt.commands {
			t.Errorf("%q:\n%s\n%s: %q", text, got.expr, tt.expr, commands)
		}
	}
}

// A pattern matches the line that it was made of, and that line with other numbers. It does not match it behind other
// words, or before them.
func TestPatternProperty(t *testing.T) {
	t.Parallel()
	words := []string{"mytool:", "the", "index", "1.2.3", "42", "/a/b/c.txt", "'quoted'", "\"a b\"", "`x-y`", "deadbeef123", "https://h.example/p", "can't", "isn't", "(see", "it)", "a=1",
		"key=<secret>", "<secret>", "x86_64", "[12:30:01]", "naïve", "➤", "\\d+", "$(x)", "*", "'", "\"", "a.b.c", "::1", "database"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 14).Draw(t, "words"), rapid.SampledFrom([]string{" ", "  ", "\t"}).Draw(t, "blank"))
		cure := []step{{argv: rapid.SliceOfN(rapid.SampledFrom([]string{"make", "x-y", "42", "./a", "1.2.3", "a/42"}), 1, 4).Draw(t, "cure")}}
		keep := rapid.Bool().Draw(t, "keep")
		p, ok := generalise(line{text: text}, cure, keep)
		var rebuilt strings.Builder
		for _, x := range pieces(strings.TrimSpace(text), keep) {
			rebuilt.WriteString(x.text)
		}
		if rebuilt.String() != strings.TrimSpace(text) {
			t.Fatalf("%q is cut into %q", text, rebuilt.String())
		}
		re, err := regexp.Compile("(?i)" + p.expr)
		if err != nil {
			t.Fatal(err)
		}
		m := re.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%q does not match %s", text, p.expr)
		}
		if ok && strings.HasSuffix(p.expr, "$") && !strings.HasPrefix(p.expr, `^\S`) && re.MatchString("expected "+text+" x") {
			t.Fatalf("%q in other words matches %s", text, p.expr)
		}
		// What the commands get back is what they had.
		for i, a := range p.commands[0].argv {
			for n, name := range re.SubexpNames() {
				if name != "" {
					a = strings.ReplaceAll(a, "{"+name+"}", m[n])
				}
			}
			if a != cure[0].argv[i] {
				t.Fatalf("%q became %q by %s", cure[0].argv[i], a, p.expr)
			}
		}
	})
}

func TestArgvs(t *testing.T) {
	t.Parallel()
	r := redact.Values([]string{"hunter2-hunter2"})
	for command, want := range map[string]string{
		"make deps":                         "make|deps",
		" npm ci && npm run 'build all' ":   "npm|ci;npm|run|build all",
		"go test ./...":                     "go|test|./...",
		"sudo apt-get install -y jq":        "sudo:apt-get|install|-y|jq",
		"rm -rf build/*":                    "shell",
		"a | b":                             "shell",
		"a; b":                              "shell",
		"a || b":                            "shell",
		"a > b":                             "shell",
		"X=1 a":                             "shell",
		"a $HOME":                           "shell",
		"a {b}":                             "shell",
		"cd x && $y":                        "shell",
		"(a)":                               "shell",
		"if a; then b; fi":                  "shell",
		"'":                                 "shell",
		"":                                  "shell",
		"sudo -u x y":                       "sudo|-u|x|y",
		"login hunter2-hunter2":             "secret",
		"login --password=x12345":           "secret",
		"curl https://u:p4ssw0rd@h.example": "secret",
	} {
		steps, err := argvs(command, r)
		var got []string
		for _, s := range steps {
			text := strings.Join(s.argv, "|")
			if s.sudo {
				text = "sudo:" + text
			}
			got = append(got, text)
		}
		if no, ok := errors.AsType[*Refusal](err); ok {
			got = []string{string(no.Kind)}
			if strings.Contains(no.Why, "hunter2") {
				t.Errorf("%s: %s", command, no.Why)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, ";") != want {
			t.Errorf("%q: %q, want %q (%v)", command, got, want, err)
		}
	}
}

func TestMake(t *testing.T) {
	t.Parallel()
	exit := classify.Exit{Code: 1}
	secrets := redact.Values([]string{"hunter2-hunter2"})
	for name, tt := range map[string]struct {
		f       Failure
		cure    Cure
		o       Options
		line    string // that the draft recognises
		kind    RefusalKind
		has     []string // in the file
		before  string
		lacking []string // not in the file
	}{
		"the cause, not what follows from it": {Failure{Command: "make test", Exit: exit, Stderr: "loading\nmytool: the schema is out of date, regenerate it\nmake: *** [test] Error 1\n"}, Cure{Command: "make schema"}, Options{},
			"mytool: the schema is out of date, regenerate it", "", []string{"layer: infra", "category: environment", "Nothing recorded shows that it helps", "      - tool: make"}, "", nil},
		"behind tabs": {Failure{Command: "make test", Exit: exit, Stderr: "\t\tstep\t1\n\t  ERROR: the schema\tis out of date: 'x'\r\n\n"}, Cure{Command: "make schema"}, Options{},
			"ERROR: the schema    is out of date: 'x'", "", nil, "", nil},
		"on stdout": {Failure{Command: "./x", Exit: exit, Stdout: "schema mismatch: generated files lack a column\n"}, Cure{Command: "make schema", Shown: "event 3"}, Options{Category: "dependency"},
			"schema mismatch: generated files lack a column", "", []string{"category: dependency", "was seen: event 3.", "stdout: 'schema mismatch"}, "", nil},
		"once more": {Failure{Command: "make e2e", Exit: exit, Stderr: "browser farm is unavailable, slots exhausted"}, Cure{Command: "make e2e"}, Options{},
			"browser farm is unavailable, slots exhausted", "", []string{"strategy: retry"}, "", []string{"commands:"}},
		"as superuser": {Failure{Command: "make e2e", Exit: exit, Stderr: "browser farm is unavailable, slots exhausted"}, Cure{Command: "sudo farmctl reset"}, Options{},
			"browser farm is unavailable, slots exhausted", "", []string{"sudo: true", "[[farmctl, reset]]"}, "", []string{"[[sudo"}},
		"secrets": {Failure{Command: "deploy --token hunter2-hunter2", Exit: exit, Stderr: "password=s3cr3t-of-mine /home/ann/x\nmytool: login hunter2-hunter2 of ghp_0123456789abcdefghijABCDEFGHIJ012345 has expired\n"}, Cure{Command: "./login"}, Options{},
			"mytool: login <secret> of <secret> has expired", "", []string{"<secret>"}, "", []string{"hunter2", "ghp_", "s3cr3t", "/home/ann"}},
		"before a rule of the same family": {Failure{Command: "npm ci", Exit: exit, Stderr: "npm error network request to https://registry.corp.example/our-registry failed, reason: getaddrinfo ENOTFOUND registry.corp.example\nnpm error our registry proxy says: tunnel is closed, not connected\n"}, Cure{Command: "corpctl tunnel"}, Options{},
			"", Conflicts, nil, "", nil},
		"of a rule that knows it": {Failure{Command: "pip install -r r.txt", Exit: exit, Stderr: "ERROR: No matching distribution found for acme-internal-tools\n"}, Cure{Command: "./vpn up"}, Options{},
			"ERROR: No matching distribution found for acme-internal-tools", "", []string{"family: pip", "priority: ", "It comes before pip_no_matching_dist"}, "pip_no_matching_dist", nil},
		"what the system says of anything": {Failure{Command: "./x", Exit: exit, Stderr: "Error: Connection refused (line 12)\n"}, Cure{Command: "./vpn up", Shown: "event 3"}, Options{}, "", NoPattern, nil, "", nil},
		"what passing output has":          {Failure{Command: "ninja", Exit: exit, Stdout: "ninja: Entering directory `build'\n"}, Cure{Command: "./vpn up", Shown: "event 3"}, Options{}, "", NoPattern, nil, "", nil},
		"no cause":                         {Failure{Command: "make", Exit: exit, Stderr: "Error: failed\nmake: *** [all] Error 1\n"}, Cure{Command: "x"}, Options{}, "", NoPattern, nil, "", nil},
		"silence":                          {Failure{Command: "make", Exit: exit}, Cure{Command: "x"}, Options{}, "", NoPattern, nil, "", nil},
		"success":                          {Failure{Command: "make", Stderr: "mytool: the schema is out of date"}, Cure{Command: "x"}, Options{}, "", NoPattern, nil, "", nil},
		"code": {Failure{Command: "npx tsc", Exit: exit, Stdout: "src/a.ts(3,7): error TS2322: Type 'string' is not assignable to type 'number'.\n"}, Cure{Command: "x", Shown: "event 3"}, Options{},
			"", IsCode, nil, "", nil},
		"a place in the code, and only an operator's word": {Failure{Command: "./check.sh", Exit: exit, Stderr: "mytool: the schema is out of date\nsrc/schema.gen.py:12: wrong column"}, Cure{Command: "make schema"}, Options{},
			"", IsCode, nil, "", nil},
		"a place in the code, and it was seen to help": {Failure{Command: "./check.sh", Exit: exit, Stderr: "mytool: the schema is out of date\nsrc/schema.gen.py:12: wrong column"}, Cure{Command: "make schema", Shown: "event 3"}, Options{},
			"mytool: the schema is out of date", "", nil, "", nil},
		"a full disk":          {Failure{Command: "make", Exit: exit, Stderr: "cp: error writing 'x': No space left on device"}, Cure{Command: "make clean"}, Options{}, "", Conflicts, nil, "", nil},
		"a category of nobody": {Failure{Command: "make", Exit: exit, Stderr: "mytool: the schema is out of date"}, Cure{Command: "x"}, Options{Category: "odd"}, "", Conflicts, nil, "", nil},
		"a category of code":   {Failure{Command: "make", Exit: exit, Stderr: "mytool: the schema is out of date"}, Cure{Command: "x"}, Options{Category: "code_bug"}, "", IsCode, nil, "", nil},
		"what a test quotes": {Failure{Command: "pytest", Exit: exit, Stdout: "=================================== FAILURES ===================================\n____ test_stale ____\n    def test_stale():\n>       assert run() == ''\nE       AssertionError: assert 'mytool: the index is stale' == ''\n\ntest_a.py:3: AssertionError\n=========================== short test summary info ============================\nFAILED test_a.py::test_stale - AssertionError\n1 failed in 0.01s\n"}, Cure{Command: "x", Shown: "event 3"}, Options{},
			"", IsCode, nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.o.Load, tt.o.Redact = loader(), secrets
			d, err := Make(t.Context(), tt.f, tt.cure, tt.o)
			if no, ok := errors.AsType[*Refusal](err); ok {
				if no.Kind != tt.kind || no.Why == "" || strings.Contains(no.Why, "hunter2") {
					t.Fatalf("%s: %s", no.Kind, no.Why)
				}
				return
			}
			if err != nil || tt.kind != "" {
				t.Fatalf("%v, want %q\n%s", err, tt.kind, d.YAML)
			}
			if d.Line != tt.line || d.Before != tt.before || d.Checked < 2000 {
				t.Errorf("%+v", d)
			}
			for _, s := range tt.has {
				if !strings.Contains(string(d.YAML), s) {
					t.Errorf("lacks %q:\n%s", s, d.YAML)
				}
			}
			for _, s := range tt.lacking {
				if strings.Contains(string(d.YAML), s) {
					t.Errorf("has %q:\n%s", s, d.YAML)
				}
			}
		})
	}
}

// A second lesson of a failure comes before the rule of the first, has an id of its own and leaves its examples alone,
// or it is refused and says where the first one stands.
func TestASecondLesson(t *testing.T) {
	t.Parallel()
	f := Failure{Command: "make test", Exit: classify.Exit{Code: 1}, Stderr: "mytool: the schema is out of date\nmytool: column table of accounts is missing\n"}
	first, err := Make(t.Context(), f, Cure{Command: "make schema"}, Options{Load: loader(), Redact: redact.Values(nil)})
	if err != nil {
		t.Fatal(err)
	}
	load := loader(catalog.File{Name: "own.yaml", Data: first.YAML})
	_, err = Make(t.Context(), f, Cure{Command: "make other"}, Options{Load: load, Redact: redact.Values(nil)})
	no, ok := errors.AsType[*Refusal](err)
	if !ok || no.Kind != Conflicts || !strings.Contains(no.Why, "own.yaml:") {
		t.Fatal(err)
	}
	f.Stderr = "mytool: the schema is out of date on account of migration twelve\n"
	second, err := Make(t.Context(), f, Cure{Command: "make other"}, Options{Load: load, Redact: redact.Values(nil)})
	if err != nil || second.ID == first.ID {
		t.Fatal(err)
	}
	cat, ps := load(catalog.File{Name: "own2.yaml", Data: second.YAML})
	if len(ps) > 0 || !slices.ContainsFunc(cat.Handlers, func(h catalog.Handler) bool { return h.ID == first.ID }) {
		t.Fatal(ps)
	}
}

// No secret of an output is in a draft, or in a refusal.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	load := loader()
	for _, secret := range []string{"abcd1234EFGH", "hunter2-hunter2", "päss wort$1"} {
		for _, form := range []string{"mytool: login %s has expired on the server\n", "TOKEN=%s\nmytool: the schema is out of date\n",
			"mytool: https://u:%s@h.example/x is unreachable by the gateway\n", "mytool: the schema is out of date\nmytool: (%s)\n", "%s\n"} {
			f := Failure{Command: "run --with " + secret, Exit: classify.Exit{Code: 1}, Stderr: strings.ReplaceAll(form, "%s", secret)}
			d, err := Make(t.Context(), f, Cure{Command: "./x"}, Options{Load: load, Redact: redact.Values([]string{secret})})
			if err != nil && strings.Contains(err.Error(), secret) || d != nil && strings.Contains(string(d.YAML)+d.Line+d.Pattern+d.ID, secret) {
				t.Errorf("%q in %q: %v, %+v", secret, form, err, d)
			}
		}
	}
}
