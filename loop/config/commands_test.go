package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loopWith returns the configuration of one loop with these test commands, in a repository with these files.
func loopWith(t *testing.T, files map[string]string, commands ...string) (*Config, string) {
	t.Helper()
	repo := t.TempDir()
	files[".superloop/spec.md"] = "# build it\n"
	for name, content := range files {
		path := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(content, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	var quotedCommands []string
	for _, c := range commands {
		quotedCommands = append(quotedCommands, fmt.Sprintf("%q", c))
	}
	c, err := LoadBytes(filepath.Join(repo, ".superloop", "config.json"), []byte(`{"runners":{"r":{"command":["r"]}},"loops":[{"id":"a","spec_file":".superloop/spec.md",
 "max_iterations":1,"completion_promise":"P","tests":{"commands":[`+strings.Join(quotedCommands, ",")+`]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c, repo
}

// found is a machine that has node and a few others on its PATH.
func found(name string) (string, error) {
	if strings.Contains(" r npm pnpm yarn bun make sh bash go pytest ", " "+name+" ") {
		return "/usr/bin/" + name, nil
	}
	return "", errors.New("not found")
}

// TestCommandsThatBashCannotRead are refused with their place and with what bash says, and what only the parser refuses
// is not.
func TestCommandsThatBashCannotRead(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"npm test":               "",
		"":                       "",
		"echo $((foo); (x))":     "", // the parser refuses it, and bash does not
		"if true; then npm test": "line 2: syntax error: unexpected end of file",
		"npm test )":             "line 1: syntax error near unexpected token `)'",
		`echo "it`:               "unexpected EOF while looking for matching `\"'",
		"npm test &&":            "line 2: syntax error: unexpected end of file",
	} {
		c, repo := loopWith(t, map[string]string{}, "true", " ", command)
		all := c.Check(repo, found)
		if want == "" {
			if len(all) > 0 {
				t.Errorf("%q: %v", command, all)
			}
			continue
		}
		if len(all) != 1 || all[0].Code != CodeSyntax || all[0].Pointer != "/loops/0/tests/commands/2" || all[0].Line != 2 || !strings.Contains(all[0].Message, want) {
			t.Errorf("%q: %v, want %q at /loops/0/tests/commands/2", command, all, want)
		}
	}
	if said := Refused(context.Background(), "ls !(a)"); !strings.Contains(said, "syntax error near unexpected token `('") {
		t.Errorf("Refused = %q", said)
	}
}

// TestCommandsThatNameWhatIsNotThere: "-" before the expected text: it is only a warning; "": no finding.
func TestCommandsThatNameWhatIsNotThere(t *testing.T) {
	t.Parallel()
	files := func() map[string]string {
		return map[string]string{
			"package.json":        `{"scripts":{"test":"jest","lint":"eslint ."},"devDependencies":{"jest":"1"}}`,
			"bare/package.json":   `{"name":"bare"}`,
			"sick/package.json":   `[]`,
			"web/src/x.js":        "",
			"run.sh":              "#!/bin/sh\n",
			"plain.sh":            "true\n",
			"Makefile":            "X := 1\n.PHONY: test\ntest: dep lint-all\n\tgo test\nlint-all dep:\n\ttrue\n",
			"inc/Makefile":        "include ../rules.mk\nall:\n",
			"pat/Makefile":        "%.o: %.c\n\tcc\n",
			"prog/Makefile":       "all:\n",
			"prog/tool.c":         "",
			"node_modules/.bin/e": "#!/bin/sh\n",
		}
	}
	for command, want := range map[string]string{
		"npm test":                         "",
		"npm t":                            "",
		"npm run lint -- --fix":            "",
		"npm run tset":                     `package.json has no script "tset"; it has "lint", "test"`,
		"npm run --silent tset":            `no script "tset"`,
		"npm --prefix bare run test":       `bare/package.json has no script "test"; it has none`,
		"cd bare && pnpm run test":         `bare/package.json has no script "test"`,
		"cd web && npm run lint":           "", // npm takes the package.json above
		"cd sick && npm test":              "sick/package.json is no JSON object",
		"cd nowhere && npm test":           "there is no directory nowhere",
		"npm ci && npm run tset":           `no script "tset"`,
		"npm run lint && npm run tset":     `no script "tset"`,
		"npm init -y && npm run tset":      `-package.json has no script "tset"`,
		"sh gen && npm run tset":           `-package.json has no script "tset"`,
		"npm run -w pkg tset":              "", // an option that is not known
		"npm run $X":                       "",
		"yarn run e":                       "", // a program of a package
		"yarn run tset":                    `-package.json has no script "tset"`,
		"cd bare && yarn run tset":         `bare/package.json has no script "tset"`,
		"yarn tset":                        "",
		"bun run web/src/x.js":             "",
		"bun test":                         "",
		"make":                             "",
		"make test":                        "",
		"make dep X=2 -j4":                 "",
		"make tset":                        `Makefile has no target "tset"; it has "dep", "lint-all", "test"`,
		"make -C inc tset":                 "",
		"make -C pat tset":                 "",
		"make -C prog tool":                "", // from tool.c
		"make -C prog all other":           `prog/Makefile has no target "other"`,
		"make -C web test":                 "-there is no Makefile in web",
		"./run.sh":                         "",
		"cd web && ../run.sh":              "",
		"./gone.sh":                        "there is no gone.sh",
		"./plain.sh":                       "plain.sh is not executable; chmod +x it",
		"web/src":                          "web/src is a directory",
		"sh gen.sh && ./gone.sh":           "-there is no gone.sh",
		"./node_modules/.bin/jest":         "-there is no node_modules/.bin/jest",
		"/opt/none/prog":                   "-there is no /opt/none/prog",
		"pytset":                           "-pytset is not on the PATH of this machine",
		"npm ci && pytset":                 "",
		"command -v pytset || true":        "",
		"if [ -x ./gone.sh ]; then x; fi":  "",
		"f() { npm run tset; }; f":         "",
		"export X=1 && [ -n \"$X\" ] && :": "",
	} {
		c, repo := loopWith(t, files(), command)
		wrong, maybe := c.CheckCommands(repo, found)
		all, sure := wrong, true
		if len(wrong) == 0 {
			all, sure = maybe, false
		}
		text, warning := strings.CutPrefix(want, "-")
		switch {
		case want == "" && len(all) == 0:
		case want != "" && len(wrong)+len(maybe) == 1 && sure == !warning && strings.Contains(all[0].Message, text) && all[0].Pointer == "/loops/0/tests/commands/0":
		default:
			t.Errorf("%q: wrong %v, maybe %v, want %q", command, wrong, maybe, want)
		}
	}
}

// TestCommandsKnowTheirOrder: what an earlier command can have installed is no certain mistake, in the validation too.
func TestCommandsKnowTheirOrder(t *testing.T) {
	t.Parallel()
	c, repo := loopWith(t, map[string]string{"package.json": `{}`}, "npm ci", "node_modules/.bin/x", "./gone.sh", "npm run tset")
	c.Loops[0].Validation.Enabled, c.Loops[0].Validation.Commands = true, []string{"./late.sh"}
	wrong, maybe := c.CheckCommands(repo, found)
	if len(wrong) != 0 || len(maybe) != 4 { // node_modules/.bin/x may have written any script
		t.Errorf("wrong %v, maybe %v", wrong, maybe)
	}
	c.Loops[0].Tests.Mode = TestsDisabled
	if wrong, maybe = c.CheckCommands(repo, found); len(wrong) != 1 || wrong[0].Pointer != "/loops/0/validation/commands" || len(maybe) != 0 {
		t.Errorf("without tests: wrong %v, maybe %v", wrong, maybe)
	}
}
