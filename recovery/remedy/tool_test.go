package remedy

import (
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

type fakeIndex map[string][]string

func (f fakeIndex) Providers(program string) []string { return f[program] }
func (f fakeIndex) Package(name string) bool          { return f["package "+name] != nil }

// What an install command asks for, and the other ways to the same tool.
func TestAskedTool(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	switches := func(command, strategy, method string, p Profile) Option {
		o := catalog.Option{ID: "x", Label: "X", Strategy: catalog.SwitchMethod, Method: method, Recommended: true}
		if strategy != "" {
			o.Strategy, o.Dep, o.SwitchTo, o.Method = catalog.InstallDepThenSwitch, strategy, method, ""
		}
		f := failure("environment", t.TempDir(), strings.Fields(command), handler("h", catalog.LayerInfra, "", o), nil)
		f.Source = classify.SourceCommand
		plan := Resolve(cat, f, p, Situation{Dir: f.Dir})
		for _, o := range plan.Options {
			if o.From.ID == "h" {
				return o
			}
		}
		return Option{}
	}
	p := Presets()["debian12"].With("cargo", "gem", "go", "ruby")
	p.Index = fakeIndex{"package python3-numpy": {"x"}, "htop": {"htop"}, "fzf": {"fzf"}}
	for _, c := range []struct{ command, strategy, method, want string }{
		{"pip3 install ruff", "pipx", "pipx", "sudo apt-get install -y --no-install-recommends pipx && pipx install ruff"},
		{"pip3 install ruff", "", "venv", "python3 -m venv .venv && .venv/bin/pip install ruff"},
		{"python3 -m pip install -q --index-url https://x.example ruff==0.4.1", "", "venv", "python3 -m venv .venv && .venv/bin/pip install ruff"},
		{"pip install requests[socks]>=2", "", "venv", "python3 -m venv .venv && .venv/bin/pip install 'requests[socks]>=2'"},
		{"pip install requests", "pipx", "pipx", ""}, // a library is no tool
		{"pip install numpy", "", "apt", "sudo apt-get install -y --no-install-recommends python3-numpy"},
		{"pip install -r requirements.txt", "", "venv", ""},
		{"pip install -e .", "", "venv", ""},
		{"pip install .", "", "venv", ""},
		{"pip install a b", "", "venv", ""},
		{"pip uninstall ruff", "", "venv", ""},
		{"npm install -g typescript", "", "system", ""},
		{"npm install vitest", "", "system", ""},
		{"cargo install ripgrep --locked", "", "system", "sudo apt-get install -y --no-install-recommends ripgrep"},
		{"cargo install --git https://x.example/r ripgrep", "", "system", ""},
		{"go install github.com/junegunn/fzf@latest", "", "apt", "sudo apt-get install -y --no-install-recommends fzf"},
		{"gem install htop", "", "apt", "sudo apt-get install -y --no-install-recommends htop"},
		{"./deploy.sh install ruff", "", "venv", ""},
		{"pip install $(x)", "", "venv", ""},
		{"pip install ../x", "", "venv", ""},
	} {
		o := switches(c.command, c.strategy, c.method, p)
		if o.Command != c.want {
			t.Errorf("%s by %s: %q (%s), want %q", c.command, c.method, o.Command, o.ImpossibleReason, c.want)
		}
		if o.Switches != (c.want != "") {
			t.Errorf("%s by %s: switches %t", c.command, c.method, o.Switches)
		}
		if choices := Choices(Plan{Options: []Option{o}, Failure: classify.Failure{Source: classify.SourceTests}}); choices[0].Reaches {
			t.Errorf("%s: the tests of a loop must pass all the same", c.command)
		}
	}
	if o := switches("pip install numpy", "", "apt", Presets()["debian12"]); o.Availability != Impossible || strings.Contains(o.ImpossibleReason, "python3-numpy") {
		t.Errorf("without an index a package is guessed: %+v", o)
	}
}

// PEP 668: the tool's own environment first, then the project's, then the system's package; each where it is there.
func TestPEP668(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	h, _ := cat.Handler("pep668")
	for system, want := range map[string][]string{
		"debian12": {"use_pipx locked", "tool_venv ready", "new_venv ready", "break_system ready"},
		"arch":     {"use_pipx locked", "tool_venv ready", "use_system ready", "new_venv ready", "break_system ready"},
	} {
		f := failure("environment", t.TempDir(), []string{"pip3", "install", "ruff"}, h, nil)
		plan := Resolve(cat, f, Presets()[system], Situation{Dir: f.Dir})
		var got []string
		for _, o := range plan.Options {
			if o.From.ID == "pep668" && o.Availability != Impossible && o.Executor == catalog.ByWrapper {
				got = append(got, o.ID+" "+string(o.Availability))
			}
		}
		slices.Sort(got[1:])
		slices.Sort(want[1:])
		if !slices.Equal(got, want) || !plan.Options[0].Recommended {
			t.Errorf("%s: %v, want %v", system, got, want)
		}
	}
}
