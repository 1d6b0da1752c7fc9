package catalog

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// overlays writes files into a user's directory and a repository, and loads.
func overlays(t *testing.T, user, repo map[string]string) (*Catalog, Problems, string) {
	t.Helper()
	root := t.TempDir()
	o := Options{UserDir: filepath.Join(root, "user"), RepoDir: filepath.Join(root, "repo")}
	for dir, files := range map[string]map[string]string{o.UserDir: user, filepath.Join(o.RepoDir, repositoryDir): repo} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, ps := Load(context.Background(), o)
	return c, ps, root
}

const newHandler = `family: mytool
handlers:
  - id: mytool_down
    label: mytool is down
    category: network_error
    match: {any: ['mytool: cannot reach (?P<host>\S+)']}
    options:
      - {id: wait, label: Wait, strategy: retry_with_modifier, recommended: true, modifier: {wait_seconds: [5]}}
      - {id: ask, label: Ask, strategy: manual, instructions: Start mytool.}
    examples:
      - {tool: mytool 1, command: mytool, exit_code: 1, stderr: "mytool: cannot reach example.org"}
    counter_examples:
      - {tool: mytool 1, command: mytool, exit_code: 1, stderr: "mytool: bad input"}
`

// Conforms: 000-7-thin
func TestOverlayAddsAndChanges(t *testing.T) {
	t.Parallel()
	c, ps, _ := overlays(t, map[string]string{
		"10-new.yaml": newHandler,
		"20-change.yaml": `handlers:
  - extends: mytool_down
    priority: 7
    match: {exit_codes: [3]}
    options:
      - {extends: ask, recommended: true, label: Ask somebody}
      - {id: plain, label: Again, strategy: retry}
recipes:
  - {id: mytool, label: My tool, category: core, packages: {apt: [mytool]}, verify: {command: mytool info}}
  - {id: other-tool, label: Other, category: core, packages: {apt: [other]}}
packages:
  libs: {mylib: {debian: [libmylib-dev]}}
`,
	}, nil)
	if len(ps) > 0 {
		t.Fatal(ps.Err(), ps)
	}
	h, ok := c.Handler("mytool_down")
	if !ok {
		t.Fatal("the handler is not there")
	}
	if h.Priority != 7 || h.Match.ExitCodes[0] != 3 || len(h.Match.Any) != 1 || h.Label != "mytool is down" || h.Layer != LayerMethod || h.Family != "mytool" {
		t.Errorf("not patched: %+v", h)
	}
	var got []string
	for _, o := range h.Options {
		s := o.ID + " " + o.Label
		if o.Recommended {
			s += " recommended"
		}
		got = append(got, s)
	}
	if want := []string{"wait Wait", "ask Ask somebody recommended", "plain Again"}; !slices.Equal(got, want) {
		t.Errorf("options %q, want %q", got, want)
	}
	if h.Origin.Source != SourceUser || filepath.Base(h.Origin.File) != "20-change.yaml" || h.Origin.Line != 2 {
		t.Errorf("origin %+v", h.Origin)
	}
	if h.Options[0].Executor != ByWrapper || h.Options[1].Executor != ByHuman || h.Options[0].Risk != RiskLow {
		t.Errorf("no defaults: %+v", h.Options)
	}
	r, _ := c.RecipeByCLI("mytool")
	if r == nil || r.Verify.Origin != VerifyUser || r.Verify.Command != "mytool info" {
		t.Fatalf("recipe %+v", r)
	}
	if r, _ := c.Recipe("other-tool"); r.Verify.Origin != VerifyGenerated || r.Verify.Command != "other-tool --version" || r.CLI != "other-tool" {
		t.Errorf("verify %+v", r.Verify)
	}
	if pkgs, ok := c.Names.Lookup(NameLib, "mylib", "debian"); !ok || pkgs[0] != "libmylib-dev" {
		t.Errorf("names: %v", pkgs)
	}
	if o := c.NameOrigin(NameLib, "mylib"); o.Source != SourceUser || o.Line != 12 {
		t.Errorf("origin of the name: %+v", o)
	}
	e, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := e.Handler("mytool_down"); ok || e.Names.Libs["mylib"] != nil {
		t.Error("the embedded catalog has changed")
	}
}

func TestReplaceAndDisable(t *testing.T) {
	t.Parallel()
	c, ps, _ := overlays(t, map[string]string{
		"a.yaml": newHandler,
		"b.yaml": "handlers: [{id: mytool_down, disabled: true}]\n" +
			"chains:\n  - extends: timeout\n    approaches: [{id: background, disabled: true}, {extends: reduce_scope, confidence: 0.1}]\n" +
			"  - {category: vcs, replace: true, approaches: [{id: look, label: Look, priority: 1, executor: role, hint: Look.}]}\n",
	}, nil)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	if _, ok := c.Handler("mytool_down"); ok {
		t.Error("a disabled handler is there")
	}
	ch, _ := c.Chain("timeout")
	if len(ch.Approaches) != 3 || ch.Approaches[1].Confidence != 0.1 || ch.Approaches[1].Hint == "" {
		t.Errorf("chain %+v", ch)
	}
	if ch.Approaches[0].Origin.Source != SourceEmbedded || ch.Approaches[1].Origin.Source != SourceUser {
		t.Errorf("origins %+v", ch.Approaches)
	}
	if ch, _ := c.Chain("git"); len(ch.Approaches) != 1 || ch.Approaches[0].ID != "look" {
		t.Errorf("replaced: %+v", ch)
	}
	if e, _ := Embedded(); len(e.Chains["timeout"].Approaches) != 4 || e.Chains["timeout"].Approaches[1].Confidence != 0.8 {
		t.Error("the embedded chain has changed")
	}
}

func TestRepositoryIsMarked(t *testing.T) {
	t.Parallel()
	c, ps, _ := overlays(t,
		map[string]string{"a.yaml": newHandler},
		map[string]string{"b.yaml": "handlers: [{extends: mytool_down, priority: 3}]\nrecipes: [{id: evil, label: E, category: core, packages: {apt: [evil]}}]\n" +
			"projects: [{id: p, label: P, method: mytool, manifests: [p.json], actions: {install: [[p, install]]}}]\n" +
			"names: {headers: {p.h: {debian: [p-dev]}}}\nchains: [{extends: unknown, approaches: [{extends: plain_retry, confidence: 1}]}]\n"})
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	h, _ := c.Handler("mytool_down")
	r, _ := c.Recipe("evil")
	p, _ := find(c.Projects, func(p *ProjectRecipe) bool { return p.ID == "p" })
	ch, _ := c.Chain("unknown")
	for name, o := range map[string]Origin{"handler": h.Origin, "recipe": r.Origin, "project": p.Origin, "name": c.NameOrigin(NameHeader, "p.h"), "approach": ch.Approaches[1].Origin} {
		if o.Source != SourceRepository {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if o := c.NameOrigin(NameHeader, "stdio.h"); o.Source != SourceEmbedded {
		t.Errorf("embedded: %+v", o)
	}
}

// A broken file is left out whole, and the others count.
// Conforms: 000-1-reuse, 000-3.1-id, 000-3.1-category, 000-3.1-label, 000-3.1-recommended, 000-3.1-strategy
// Conforms: 000-11-strategies, 000-11-required, 000-11-optional, 002-rule-4
func TestBrokenOverlays(t *testing.T) {
	t.Parallel()
	guard := "layer: guard\nhandlers: [{id: g, label: G, category: code_bug, guard: strong, match: {any: [assertion failed here]}}]\n"
	for name, tt := range map[string]struct {
		user, repo string
		want       string // of one problem, without the directory
	}{
		"category":    {user: "categories: [{id: mine}]", want: `b\.yaml:1:1: /categories: the list of categories is closed`},
		"managers":    {user: "managers: []", want: `/managers: the package managers are part of superloop`},
		"unknown key": {user: "handlres: []", want: `b\.yaml:1:1: /handlres: unknown key "handlres"; did you mean "handlers"\?`},
		"nested key":  {user: strings.Replace(newHandler, "label: mytool is down", "lable: x", 1), want: `b\.yaml:4:5: /handlers/0/lable: unknown key "lable"; did you mean "label"\?`},
		"old shape":   {user: strings.Replace(newHandler, "label: mytool is down", "strategy: manual", 1), want: `b\.yaml:4:5: /handlers/0/strategy: "strategy" does not stand here any more: give it as options: \[`},
		"twice":       {user: "recipes: []\nrecipes: []", want: `b\.yaml:2:1: /recipes: the key "recipes" stands here twice \(first in line 1\)`},
		"id twice":    {user: "recipes: [{id: x, label: x, category: core, packages: {apt: [x]}}, {id: x, label: x, category: core, packages: {apt: [x]}}]", want: `the recipe "x" stands in this file twice`},
		"alias":       {user: "recipes: &a [*a]", want: `b\.yaml:1:10: anchors`},
		"merge":       {user: "a: {x: 1}\n<<: 1", want: `unknown key "a"`},
		"tag":         {user: "layer: !!str infra", want: `tags \(!name\) are not taken`},
		"not yaml":    {user: "handlers: [\n}", want: `b\.yaml:1:1: not YAML: `},
		"empty":       {user: "# nothing\n", want: `b\.yaml:1:1: the file is empty`},
		"documents":   {user: "recipes: []\n---\nrecipes: []", want: `b\.yaml:2:1: a second document`},
		"not utf-8":   {user: "recipes: []\n# \xff", want: `b\.yaml:2:3: the text is not UTF-8`},
		"wrong type":  {user: "handlers: {}", want: `b\.yaml:1:11: /handlers: must be a list, not a mapping`},
		"wrong value": {user: strings.Replace(newHandler, "exit_code: 1", "exit_code: one", 1), want: `b\.yaml:11:54: /handlers/0/examples/0/exit_code: must be a whole number, not "one"`},
		"nothing":     {user: strings.Replace(newHandler, "label: mytool is down", "label:", 1), want: `/handlers/0/label: is empty`},
		"no such":     {user: "handlers: [{extends: mytool_dwn}]", repo: "", want: `there is no handler "mytool_dwn" to change`},
		"no verb":     {user: "chains: [{category: vcs, approaches: []}]", want: `there is a chain "vcs" already \(data/chains\.yaml:\d+\): write extends: vcs to change it, or add replace: true`},
		"two verbs":   {user: "chains: [{category: vcs, disabled: true, replace: true}]", want: `says two of extends, replace and disabled`},
		"no chain":    {user: "chains: [{category: vcs, disabled: true}]", want: `the chain of a category cannot be disabled`},
		"no family":   {user: strings.Replace(newHandler, "family: mytool\n", "", 1), want: `b\.yaml:2:5: /handlers/0: the new handler "mytool_down" needs family: or layer:`},
		"pattern":     {user: strings.Replace(newHandler, `\S+`, `\S++(`, 1), want: `b\.yaml:6:19: /handlers/0/match/any/0: does not compile as RE2`},
		"large":       {user: strings.Replace(newHandler, `\S+`, `[a-z]{200}[0-9]{200}`, 1), want: `/handlers/0/match/any/0: its program has \d+ instructions, more than 200`},
		"strategy":    {user: strings.Replace(newHandler, "strategy: manual", "strategy: manuel", 1), want: `b\.yaml:9:41: /handlers/0/options/1/strategy: there is no strategy "manuel"; did you mean "manual"\?`},
		"required":    {user: strings.Replace(newHandler, ", instructions: Start mytool.", "", 1), want: `b\.yaml:9:9: /handlers/0/options/1: the strategy manual needs instructions`},
		"recommended": {user: strings.Replace(newHandler, ", recommended: true", "", 1), want: `recommends 0 options: exactly one`},
		"placeholder": {user: strings.Replace(newHandler, "strategy: manual, instructions: Start mytool.", "strategy: env_fix, commands: [[mytool, start, '{nobody}']]", 1), want: `\{nobody\} is captured by no pattern`},
		"shell":       {user: strings.Replace(newHandler, "strategy: manual, instructions: Start mytool.", "strategy: env_fix, commands: [[mytool, a, '&&', mytool, b]]", 1), want: `"&&" is for a shell`},
		"injection":   {user: "recipes: [{id: x, label: x, category: core, packages: {apt: ['-oDPkg::Pre-Invoke::=id']}}]", want: `/recipes/0/packages/apt/0: "-oDPkg::Pre-Invoke::=id" is not a package's name`},
		"dep":         {user: strings.Replace(newHandler, "strategy: manual, instructions: Start mytool.", "strategy: install_dep, dep: nosuchtool", 1), want: `/handlers/0/options/1/dep: there is no recipe "nosuchtool"`},
		"long chain": {user: "chains: [{extends: timeout, approaches: [{id: x, label: X, priority: 9, executor: role, hint: H.}]}]",
			want: `has 5 approaches: a chain has 4 at most`},
		"guard": {user: guard, repo: "handlers: [{id: g, disabled: true}]", want: `a file of the repository cannot change a guard`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := "recipes: [{id: good-%, label: Good, category: core, packages: {apt: [good]}}]"
			user := map[string]string{"a.yaml": strings.Replace(good, "%", "a", 1), "b.yaml": tt.user, "c.yaml": strings.Replace(good, "%", "c", 1)}
			repo := map[string]string{}
			if tt.repo != "" {
				repo["b.yaml"] = tt.repo
			}
			c, ps, _ := overlays(t, user, repo)
			re := regexp.MustCompile(tt.want)
			if !slices.ContainsFunc(ps.Errors(), func(p Problem) bool { return re.MatchString(p.String()) }) {
				t.Errorf("no problem matches %s in\n%v", tt.want, ps)
			}
			for _, p := range ps.Errors() {
				if filepath.Base(p.File) != "b.yaml" {
					t.Errorf("another file is blamed: %v", p)
				}
			}
			for _, id := range []string{"good-a", "good-c"} {
				if _, ok := c.Recipe(id); !ok {
					t.Errorf("%s is not there", id)
				}
			}
			if _, ok := c.Handler("mytool_down"); ok {
				t.Error("the broken file counts")
			}
			if ch, _ := c.Chain("timeout"); len(ch.Approaches) != 4 {
				t.Error("the broken chain counts")
			}
		})
	}
}

// A file that builds on a broken one goes with it.
func TestBrokenFilesTakeOthersWithThem(t *testing.T) {
	t.Parallel()
	c, ps, _ := overlays(t, map[string]string{
		"a.yaml": strings.Replace(newHandler, `\S+`, `(`, 1),
		"b.yaml": "handlers: [{extends: mytool_down, priority: 1}]",
		"c.yaml": "recipes: [{id: fine, label: Fine, category: core, packages: {apt: [fine]}}]",
	}, nil)
	if _, ok := c.Recipe("fine"); !ok || len(ps.Errors()) != 2 {
		t.Errorf("%v", ps)
	}
}

func TestOverlayFilesOfOddKinds(t *testing.T) {
	t.Parallel()
	_, _, root := overlays(t, nil, nil)
	dir := filepath.Join(root, "repo", repositoryDir)
	outside := filepath.Join(root, "outside.yaml")
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(outside, []byte("recipes: []"), 0o600))
	must(os.Symlink(outside, filepath.Join(dir, "link.yaml")))
	must(os.Symlink("inside.txt", filepath.Join(dir, "inner.yaml")))
	must(os.WriteFile(filepath.Join(dir, "inside.txt"), []byte("recipes: [{id: inner, label: I, category: core, packages: {apt: [i]}}]"), 0o600))
	must(os.WriteFile(filepath.Join(dir, "large.yaml"), []byte(strings.Repeat("#", MaxFileSize+1)), 0o600))
	must(os.WriteFile(filepath.Join(dir, "short.yml"), []byte("recipes: []"), 0o600))
	must(os.WriteFile(filepath.Join(dir, ".hidden.yaml"), []byte("nonsense"), 0o600))
	must(os.Mkdir(filepath.Join(dir, "sub.yaml"), 0o700))
	must(mkfifo(filepath.Join(dir, "pipe.yaml")))
	c, ps := Load(context.Background(), Options{RepoDir: filepath.Join(root, "repo")})
	if _, ok := c.Recipe("inner"); !ok {
		t.Error("a link inside of the directory is not followed")
	}
	var got []string
	for _, p := range ps {
		got = append(got, filepath.Base(p.File)+": "+p.Message)
	}
	want := []string{
		"large.yaml: cannot be read: larger than 1048576 bytes: split it into several files",
		"link.yaml: cannot be read: it is a link out of its directory; copy the file instead",
		"pipe.yaml: cannot be read: not a regular file",
		"short.yml: is not read: only names that end in .yaml are",
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}

	must(os.RemoveAll(dir))
	must(os.Symlink(root, dir))
	if _, ps := Load(context.Background(), Options{RepoDir: filepath.Join(root, "repo")}); len(ps) != 1 || !strings.Contains(ps[0].Message, "link out") {
		t.Errorf("a directory that is a link out of the repository: %v", ps)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, ps := Load(ctx, Options{UserDir: root}); len(ps) != 1 || !strings.Contains(ps[0].Message, "canceled") {
		t.Errorf("cancelled: %v", ps)
	}
	if _, ps := Load(context.Background(), Options{UserDir: filepath.Join(root, "nowhere"), RepoDir: filepath.Join(root, "nowhere")}); len(ps) > 0 {
		t.Errorf("no directories: %v", ps)
	}
}
