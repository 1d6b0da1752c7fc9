package inputs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/manifest"
)

// TestOddFiles: links, pipes and giants in place of inputs. Nothing hangs, nothing
// outside is read, and each is a change.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("registry=hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit func(b box)
		want string
	}{
		"link out":       {func(b box) { b.link(outside, ".npmrc") }, "appeared .npmrc"},
		"link in":        {func(b box) { b.put("conf/rc", "a=b\n"); b.link("conf/rc", ".npmrc") }, "appeared .npmrc settings"},
		"link up and in": {func(b box) { b.link("../"+filepath.Base(b.dir)+"/package.json", ".npmrc") }, "appeared .npmrc"},
		"dead link":      {func(b box) { b.link("nowhere", ".npmrc") }, ""},
		"link to itself": {func(b box) { b.link(".npmrc", ".npmrc") }, "appeared .npmrc"},
		"directory":      {func(b box) { b.put(".npmrc/x", "y") }, ""},
		"pipe": {func(b box) {
			if err := syscall.Mkfifo(filepath.Join(b.dir, ".npmrc"), 0o600); err != nil {
				b.t.Fatal(err)
			}
		}, "appeared .npmrc"},
		"giant": {func(b box) {
			b.put(".npmrc", "")
			if err := os.Truncate(filepath.Join(b.dir, ".npmrc"), maxDigest+1); err != nil {
				b.t.Fatal(err)
			}
		}, "unwatchable .npmrc"},
		"big": {func(b box) { b.put(".npmrc", strings.Repeat("#\n", maxText/2+1)) }, "appeared .npmrc"},
		"a directory that is a link out": {func(b box) {
			b.rm("sub")
			b.link(filepath.Dir(outside), "sub")
		}, ""},
		"a directory of many": {func(b box) {
			b.put(".yarnrc.yml", "x")
			for i := range 3 {
				b.put(fmt.Sprintf("patches/%d.patch", i), "x")
			}
		}, "appeared patches/0.patch, appeared patches/1.patch, appeared patches/2.patch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, project)
			q := query("npm install")
			base := b.take(q)
			c.edit(b)
			changes := b.check(base, q)
			if got := names(changes); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if strings.Contains(Diff(changes), "hunter2") {
				t.Error("a file outside was read")
			}
		})
	}
	if _, err := Inputs(&Baseline{}, Query{WorkingDir: "../x"}); err == nil {
		t.Error("a working directory outside is taken")
	}
}

// TestBoundsAreChanges: what cannot be watched whole is never unchanged.
func TestBoundsAreChanges(t *testing.T) {
	t.Parallel()
	b := box{t: t, dir: t.TempDir()}
	b.put("package.json", `{"workspaces": ["p/*"]}`)
	for i := range maxListing + 1 {
		if i == 0 {
			b.put("p/x0", "")
			continue
		}
		if err := os.Link(filepath.Join(b.dir, "p/x0"), filepath.Join(b.dir, "p", fmt.Sprint("x", i))); err != nil {
			t.Fatal(err)
		}
	}
	q := query("npm install")
	base := b.take(q)
	if got := names(b.check(base, q)); got != "unwatchable p" {
		t.Errorf("a giant directory: %s", got)
	}
	var script strings.Builder
	for i := range 500 {
		fmt.Fprintf(&script, "sh ./s%d.sh\n", i)
	}
	many := box{t: t, dir: t.TempDir()}
	for i := range 40 {
		many.put(fmt.Sprintf("s%d.sh", i), strings.ReplaceAll(script.String(), "./", fmt.Sprintf("./%d/", i)))
		for j := range 6 {
			many.put(fmt.Sprintf("%d/s%d.sh", i, j), strings.ReplaceAll(script.String(), ".sh", ".sh "+fmt.Sprint(i, j)))
		}
	}
	many.put("all.sh", script.String())
	q = query("sh all.sh")
	base = many.take()
	if got := names(many.check(base, q)); !strings.Contains(got, "unwatchable .") {
		t.Errorf("scripts without end: %.200s", got)
	}
}

// TestWhatIsNotLookedAtIsAQuestion: a command behind a bound is not trusted in silence.
func TestWhatIsNotLookedAtIsAQuestion(t *testing.T) {
	t.Parallel()
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	nested := func(format string) map[string]string {
		files := map[string]string{"evil.sh": "x"}
		for i := range maxDepth + 2 {
			files[fmt.Sprint(i)+".sh"] = fmt.Sprintf(format, i+1)
		}
		return files
	}
	for name, c := range map[string]struct {
		files   map[string]string
		command string
		want    string
	}{
		"commands":      {map[string]string{"a.sh": many(maxCommands, "echo %d\n") + "sh evil.sh\n"}, "sh a.sh", "unwatchable a.sh commands"},
		"a recipe":      {map[string]string{"Makefile": "all:\n\t" + many(maxCommands, "echo %d;") + "sh evil.sh\n"}, "make", "unwatchable . commands"},
		"depth":         {nested("sh %d.sh\n"), "sh 0.sh", "unwatchable . nesting"},
		"directories":   {map[string]string{"a.sh": many(maxDirs+1, "cd d%d\n") + "sh evil.sh\n"}, "sh a.sh", "unwatchable . directories, appeared evil.sh"},
		"a long script": {map[string]string{"a.sh": strings.Repeat("# long\n", maxScript/7+1) + "sh evil.sh\n"}, "sh a.sh", "unwatchable a.sh commands"},
		"a long makefile": {map[string]string{"Makefile": strings.Repeat("# long\n", maxScript/7+1) + "all:\n\tsh evil.sh\n"}, "make",
			"unwatchable Makefile commands"},
		"requirements":      {nested("-r %d.sh\n"), "pip install -r 0.sh", "unwatchable 13.sh nesting"},
		"a circle is none":  {map[string]string{"a.sh": "sh b.sh\n", "b.sh": "sh a.sh\n"}, "sh a.sh", ""},
		"another is none":   {map[string]string{"a": "-r b\n", "b": "-r a\n"}, "pip install -r a", ""},
		"as many as may be": {map[string]string{"a.sh": many(maxCommands-1, "echo %d\n") + "sh b.sh\n", "b.sh": ""}, "sh a.sh", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := box{t: t, dir: t.TempDir()}
			for file, text := range c.files {
				b.put(file, text)
			}
			q := query(c.command)
			base := b.take(q)
			b.put("evil.sh", "evil")
			if got := names(b.check(base, q)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestEveryByteCounts: any edit of one byte in a file that counts whole is a
// change, and only of that file.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	b := newBox(t, project)
	q := query("sh scripts/lib.sh && node scripts/gen.js")
	base := b.take()
	rapid.Check(t, func(rt *rapid.T) {
		file := rapid.SampledFrom([]string{"scripts/lib.sh", "scripts/gen.js"}).Draw(rt, "file")
		p := filepath.Join(b.dir, file)
		text, err := os.ReadFile(p)
		if err != nil {
			rt.Fatal(err)
		}
		at := rapid.IntRange(0, len(text)).Draw(rt, "at")
		with := rapid.SliceOfN(rapid.Byte(), 1, 3).Draw(rt, "with")
		if err := os.WriteFile(p, append(append(append([]byte{}, text[:at]...), with...), text[at:]...), 0o644); err != nil {
			rt.Fatal(err)
		}
		if got := names(b.check(base, q)); !strings.Contains(got, "changed "+file) {
			rt.Errorf("got %s", got)
		}
		if err := os.WriteFile(p, text, 0o644); err != nil {
			rt.Fatal(err)
		}
		if got := names(b.check(base, q)); got != "" {
			rt.Errorf("put back, but %s", got)
		}
	})
}

// TestStrictSeesMore: whatever Scripts calls a change, Strict calls one too; and
// every edit of an input's bytes is one for Strict.
func TestStrictSeesMore(t *testing.T) {
	t.Parallel()
	b := newBox(t, project)
	files := []string{"package.json", "package-lock.json", "Makefile", "scripts/fix.sh"}
	commands := []string{"npm install", "npm run build", "make", "./scripts/fix.sh", "yarn"}
	base := b.take()
	rapid.Check(t, func(rt *rapid.T) {
		file := rapid.SampledFrom(files).Draw(rt, "file")
		q := query(rapid.SampledFrom(commands).Draw(rt, "command"))
		p := filepath.Join(b.dir, file)
		text, err := os.ReadFile(p)
		if err != nil {
			rt.Fatal(err)
		}
		defer os.WriteFile(p, text, 0o644)
		old := rapid.SampledFrom([]string{`"`, "\n", "husky", "1.3.0", "1.0.0", "example", "all"}).Draw(rt, "old")
		edited := strings.Replace(string(text), old, rapid.SampledFrom([]string{"", " ", "x", `"y"`, "\u200b"}).Draw(rt, "new"), 1)
		if err := os.WriteFile(p, []byte(edited), 0o644); err != nil {
			rt.Fatal(err)
		}
		loose := b.check(base, q)
		q.Mode = Strict
		strict := b.check(base, q)
		if len(loose) > 0 && len(strict) == 0 {
			rt.Errorf("scripts: %s, strict: nothing", names(loose))
		}
		if edited != string(text) && file == "package.json" && strings.Contains(q.Commands[0][0], "npm") && len(strict) == 0 {
			rt.Error("strict sees no edit of package.json")
		}
		if q.Mode = Off; len(b.check(base, q)) != 0 {
			rt.Error("off sees something")
		}
	})
}

// TestParsersNeverPanic feeds every parser with damaged files.
func TestParsersNeverPanic(t *testing.T) {
	t.Parallel()
	var parsers []func([]byte) ([]part, bool)
	for _, p := range table() {
		for _, s := range p.sources {
			if s.parts != nil {
				parsers = append(parsers, s.parts)
			}
		}
	}
	seeds := []string{project, newLock, "[a.b]\nc = {d = [1, '''x'''], \"e\" = 2} # f\n", "a:\n  - b: 'c'\n", "<project><a b=\"c\"/></project>", "replace (\n a => b\n)\n",
		"$(x `y` \"z\" 'w') > f; . ./a && cd b", "{\"a\": [\"b\\u0041\", {\"c\": \"d\"}], /* x */ }"}
	rapid.Check(t, func(rt *rapid.T) {
		text := []byte(rapid.SampledFrom(seeds).Draw(rt, "seed"))
		from := rapid.IntRange(0, len(text)).Draw(rt, "from")
		to := rapid.IntRange(from, len(text)).Draw(rt, "to")
		text = append(append(append([]byte{}, text[:from]...), rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(rt, "with")...), text[to:]...)
		for _, p := range parsers {
			p(text)
		}
		split(string(text))
		manifest.YAMLList(text, "a")
		visible(string(text))
	})
}

func TestCompareIsSymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(label string) []Input {
			seen := map[key]bool{}
			var out []Input
			for range rapid.IntRange(0, 8).Draw(rt, label) {
				in := Input{Path: rapid.SampledFrom([]string{"a", "b", "b/c"}).Draw(rt, "path"), Part: rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, "part"),
					Sum: rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "sum")}
				if !seen[key{in.Path, in.Part}] {
					seen[key{in.Path, in.Part}] = true
					out = append(out, in)
				}
			}
			r := reader{found: map[key]Input{}}
			for _, in := range out {
				r.found[key{in.Path, in.Part}] = in
			}
			return r.inputs()
		}
		a, b := draw("a"), draw("b")
		there, back := Compare(a, b), Compare(b, a)
		if len(there) != len(back) || len(Compare(a, a)) != 0 {
			rt.Errorf("%v %v", there, back)
		}
		if (len(there) == 0) != (Digest(a) == Digest(b)) {
			rt.Errorf("digests and changes disagree: %v", there)
		}
		opposite := map[string]string{Appeared: Vanished, Vanished: Appeared, Changed: Changed}
		for i := range there {
			if there[i].Name() != back[i].Name() || opposite[there[i].Kind] != back[i].Kind {
				rt.Errorf("%v %v", there[i], back[i])
			}
		}
	})
}

// TestDeepManifest: a manifest whose values are nested deep counts as a whole. Written with indents, 18 KB of it would be
// more than a gigabyte.
func TestDeepManifest(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	b := newBox(t, "-- package.json --\n{\"workspaces\": []}\n")
	q := query("npm ci")
	base := b.take(q)
	for _, text := range []string{`{"workspaces": ` + deep + `}`, `{"scripts": {"prepare": ` + deep + `}}`} {
		b.put("package.json", text)
		if got := names(b.check(base, q)); got != "appeared package.json, vanished package.json workspaces" {
			t.Errorf("%.30s...: %s", text, got)
		}
	}
}
