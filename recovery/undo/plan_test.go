package undo

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// shown is a plan in one line: paths, "!" behind those that are deleted.
func shown(t Targets) string {
	var out []string
	for _, p := range t.Paths {
		if p.Deleted {
			p.Path += "!"
		}
		out = append(out, p.Path)
	}
	if t.Untracked {
		out = append(out, "+untracked")
	}
	if t.Ignored {
		out = append(out, "+ignored")
	}
	for _, r := range t.Refused {
		out = append(out, "-"+r.Path)
	}
	return strings.Join(out, " ")
}

func TestPlan(t *testing.T) {
	t.Parallel()
	b := box{t: t, dir: t.TempDir()}
	for _, f := range []string{"a.txt", "b.txt", ".hidden", "dist/x", "web/package.json", "web/node_modules/y/z", "node_modules/a/b", "pkgs/p/node_modules/c", "target/debug/x",
		".venv/bin/python", "out-1/x", "out-2/x", "deep/a/b/c.log", "deep/d.log", "[x]", ".git/config", ".superloop/config.json", "-odd"} {
		b.put(f, "x")
	}
	if err := os.Symlink("/etc", b.path("etc")); err != nil {
		t.Fatal(err)
	}
	locks := func(s string) string { // what an installation of JavaScript may write where it is called
		var out []string
		for f := range strings.FieldsSeq(".npmrc .pnp.cjs .pnp.loader.mjs .yarn/build-state.yml .yarn/install-state.gz bun.lock bun.lockb") {
			out = append(out, f)
		}
		return strings.Replace(s, "LOCKS", strings.Join(out, " "), 1)
	}
	for _, c := range []struct{ command, dir, want string }{
		{"rm -rf node_modules", "", "node_modules!"},
		{"rm -rf ./node_modules/ web/node_modules", "", "node_modules! web/node_modules!"},
		{"rm -rf node_modules", "web", "web/node_modules!"},
		{"cd web && rm -rf node_modules", "", "web/node_modules!"},
		{"rm -rf out-* {a,b}.txt", "", "a.txt! b.txt! out-1! out-2!"},
		{"rm -rf *", "", ".*"},
		{"rm -rf out-...", "", "out-1! out-2!"},
		{"rm -rf ...", "", "+untracked -..."},
		{"rm -f [x] -- -odd", "", "-odd! [x]!"},
		{"rm -rf deep/a deep", "", "deep!"},
		{"rm missing", "", ""},
		{"rm -rf /", "", "-/"},
		{"rm -rf ../x ~/y", "", "+untracked -../x -~/y"},
		{"rm -rf .", "", "+untracked -."},
		{"rm -rf .git .superloop/config.json", "", "-.git -.superloop/config.json"},
		{"rm etc", "", "etc!"},
		{"rm -rf etc/passwd", "", "etc/passwd!"},
		{"find deep -name *.log -delete", "", "deep +untracked"},
		{"find deep -name *.log", "", ""},
		{"mv a.txt b.txt", "", "a.txt! b.txt"},
		{"mv a.txt dist", "", "a.txt!"},
		{"cp a.txt dist/x", "", "dist/x"},
		{"sed -i s/a/b/ a.txt", "", "a.txt"},
		{"sed s/a/b/ a.txt", "", ""},
		{"git clean -fdx", "", "+untracked +ignored"},
		{"git clean -fd", "", "+untracked"},
		{"git checkout .", "", ""},
		{"echo hi && ls -l && true", "", ""},
		{"./scripts/fix.sh", "", "+untracked"},
		{"env CI=1 rm -rf dist", "", "dist!"},
		{"npx rimraf dist", "", "dist!"},
		{"cargo clean", "", "Cargo.lock Cargo.toml target!"},
		{"cargo build", "", "Cargo.lock Cargo.toml target"},
		{"pip install -r x.txt", "", ".venv requirements.txt"},
		{"python3 -m venv .venv --clear", "", ".venv!"},
		{"go mod tidy", "", "go.mod go.sum go.work go.work.sum"},
		{"npm install", "", locks("LOCKS node_modules npm-shrinkwrap.json package-lock.json package.json pkgs/p/node_modules pnpm-lock.yaml pnpm-workspace.yaml web/node_modules yarn.lock")},
		{"npm ci", "", locks("LOCKS node_modules! npm-shrinkwrap.json package-lock.json package.json pkgs/p/node_modules! pnpm-lock.yaml pnpm-workspace.yaml web/node_modules! yarn.lock")},
	} {
		var list [][]string
		for s := range strings.SplitSeq(c.command, " && ") {
			list = append(list, strings.Fields(s))
		}
		got, err := Plan(b.dir, c.dir, list)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == ".*" {
			if s := shown(got); !strings.HasPrefix(s, "-odd! [x]! a.txt! b.txt! deep! dist! etc! node_modules!") || strings.Contains(s, "hidden") {
				t.Errorf("%s: %s", c.command, s)
			}
			continue
		}
		if s := shown(got); s != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.command, s, c.want)
		}
	}
	if _, err := Plan(b.dir, "../x", nil); err == nil {
		t.Error("a working directory outside is taken")
	}
	if got, err := Plan(b.dir, b.dir+"/web", [][]string{{"rm", b.dir + "/a.txt"}}); err != nil || shown(got) != "a.txt!" {
		t.Errorf("absolute paths: %s %v", shown(got), err)
	}
}

func TestPlanIsBounded(t *testing.T) {
	t.Parallel()
	b := box{t: t, dir: t.TempDir()}
	b.put("f/0", "")
	for i := range maxTargets + 10 {
		if err := os.Link(b.path("f/0"), b.path(fmt.Sprintf("f/%d", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.plan("rm -f f/*"); len(got.Paths) != maxTargets || len(got.Refused) != 1 {
		t.Errorf("%d targets, refused %v", len(got.Paths), got.Refused)
	}
}
